"""The commands of research, one module each, imported only when that command runs."""

from limner.cli.main import Command, Groups

_TITLES = {
    "Illustrate": {"demo": "Create a small collection, index it and illustrate four texts."},
    "Research": {
        "data": "Audit data sets and fetch their pictures.",
        "train": "Train a system from a settings file.",
        "sweep": "Train a grid of settings and choose the best on validation.",
        "measure": "Measure a trained run on its test split.",
        "evaluate": "Measure how well a library's encoders retrieve pictures.",
        "table": "Reproduce a table of a paper from measured runs.",
        "figure": "Reproduce a figure of a paper from measured runs.",
        "scenes": "Detect objects in pictures and their relations (scene graphs).",
    },
    "Studies": {"study": "Ask people which pictures fit, and analyse their votes."},
}
COMMANDS: Groups = {
    title: {name: Command(f"{__name__}.{name}:{name}", text) for name, text in commands.items()}
    for title, commands in _TITLES.items()
}
"""Entry point of ``limner.commands``, registered in ``pyproject.toml``."""
