"""The commands whose outputs are recorded, and the files they read.

Names are those of the recorded files and stay; words change with the command line. All run in one folder.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONFIGS = Path(__file__).parents[2] / "configs"


@dataclass(frozen=True)
class Case:
    """A command.

    Attributes:
        name: of the recorded file.
        command: words, parted by spaces; ``'…'`` holds words together, ``@`` is the folder of settings.
        files: patterns of the files it leaves that are recorded beside what it prints.
        after: names of the commands that must have run before.
    """

    name: str
    command: str
    files: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


COMMANDS = (
    "",
    *("index", "illustrate", "search", "calibrate", "evaluate", "train", "sweep", "measure", "table"),
    *("figure", "scenes", "data", "data audit", "data fetch", "data build-recipes", "data build-prior"),
    *("models", "models list", "models export", "models get", "studio", "study", "study serve"),
    *("study preferences", "study create", "study status", "study export", "study report", "demo"),
)


def helped() -> Iterator[Case]:
    for words in COMMANDS:
        yield Case(f"help-{words.replace(' ', '-')}".strip("-"), f"{words} --help".strip())


KITE, SHORE, SUPPER = (
    f"demo/texts/{name}" for name in ("finns-kite.md", "the-far-shore.txt", "birthday-supper.html")
)


def boards() -> Iterator[Case]:
    """Storyboards of the drawn collection."""
    for name, text, suffix, words in (
        ("kite", KITE, "json", "--json"),
        ("kite", KITE, "md", ""),
        ("kite", KITE, "html", ""),
        ("kite", KITE, "pptx", ""),
        ("kite", KITE, "pdf", ""),
        ("supper-given", SUPPER, "json", ""),
        ("supper-anew", SUPPER, "json", "--ignore-given"),
        ("shore-blank", SHORE, "json", "--min-score 0.3"),
        ("shore-blank", SHORE, "html", "--min-score 0.3"),
        ("shore-blank", SHORE, "pdf", "--min-score 0.3"),
        ("shore-sentences", SHORE, "json", "--by sentence"),
        ("shore-pins", SHORE, "json", "--pin 1=IMG_0015.jpg --pin 2=none --ban IMG_0002.jpg"),
        ("kite-pins", KITE, "json", "--pin 1=shore/IMG_0001.jpg --pin 3=none --ban kite/IMG_0012.jpg"),
        ("kite-repeats", KITE, "json", "--allow-repeats --set runners_up=1"),
        ("kite-chain", KITE, "json", "--decoder chain"),
        ("kite-beam", KITE, "json", "--decoder beam"),
        ("kite-greedy", KITE, "json", "--decoder greedy"),
        ("kite-off", KITE, "json", "--decoder off"),
        ("kite-pull", KITE, "json", "--set pair_weight=2 --set context=0.5"),
        ("kite-alone", KITE, "json", "--settings board.toml"),
        ("kite-captions", KITE, "json", "--channel captions"),
        ("kite-pixels", KITE, "json", "--channel base"),
        ("tongues", "tongues.md", "json", ""),
        ("tongues", "tongues.md", "html", ""),
    ):
        out = f"boards/{name}.{suffix}"
        command = f"illustrate {text} --library demo/library -o {out} {words}"
        files = (out, f"boards/{name}*/*") if suffix == "md" else (out,)
        yield Case(f"illustrate-{name}-{suffix}", command, files, after=("demo",))
    for decoder in ("anchor", "chain"):
        out = f"boards/unworded-{decoder}.json"
        words = f"illustrate {KITE} --library demo/library-without-words -o {out} --decoder {decoder}"
        yield Case(f"illustrate-unworded-{decoder}", words, (out,), after=("demo",))
    for name, words in (
        ("exists", f"illustrate {KITE} --library demo/library -o board.toml"),
        ("pin", f"illustrate {KITE} --library demo/library -o boards/x.json --pin 1=nothing.jpg"),
        ("step", f"illustrate {KITE} --library demo/library -o boards/x.json --pin 99=none"),
        ("library", f"illustrate {KITE} --library nowhere -o boards/x.json"),
        ("text", "illustrate nowhere.md --library demo/library -o boards/x.json"),
        ("option", f"illustrate {KITE} --library demo/library -o boards/x.json --set decodr=chain"),
    ):
        yield Case(f"refused-{name}", words, after=("demo",))


def library() -> Iterator[Case]:
    yield Case("demo", "demo demo", ("demo/*.html", "demo/texts/*", "demo/answers.json", "demo/**/*.txt"))
    sources = "demo/pictures/kite demo/pictures/supper"
    yield Case("index-colour", f"index {sources} --library colour --encoder colour --json", after=("demo",))
    yield Case("index-again", f"index {sources} --library colour --encoder colour", after=("index-colour",))
    yield Case(
        "index-more",
        "index demo/pictures/shore list.csv --library colour --encoder colour --workers 1",
        after=("index-again",),
    )
    yield Case("index-refused", "index nowhere --library colour2", after=())
    for name, words in (
        ("boat", "'a boat on the sea' --library demo/library -k 5"),
        ("base", "'a bear sleeps' --library demo/library --channel base -k 5"),
        ("captions", "'a bear sleeps' --library demo/library --channel captions -k 5"),
        ("german", "'ein Bär schläft im Bett' --library demo/library -k 5"),
        ("unworded", "'a large flower' --library demo/library-without-words -k 5"),
    ):
        yield Case(f"search-{name}", f"search {words} --json", after=("demo",))
    yield Case(
        "search-table", "search 'sailing away over the water' --library demo/library -k 3", after=("demo",)
    )
    yield Case("models-list", "models list --json")


CASES = (*helped(), *library(), *boards())

FILES = {
    "boards/here": "",
    "board.toml": 'decoder = "chain"\ncontext = 0\npair_weight = 0\n',
    "list.csv": "path,caption\ndemo/pictures/s000/IMG_0001.jpg,a drawing of the list\n",
    "tongues.md": """# Vier Bilder

Der Fuchs lässt auf dem Hügel einen Drachen steigen, und der Wind trägt ihn hoch über die Wiesen.

Une fille navigue sur la mer dans un bateau à la voile blanche.

## 3

Медведь печёт пирог на кухне.

Xyzzy qwrt plugh.
""",
}
