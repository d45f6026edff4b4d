"""Tiny runs on drawn pictures: trained, measured and forgotten, to see that the whole way works.

Their figures mean nothing and are never stored. It makes no table itself.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.runs.measure import Measured

_DRAWN = 'backbone = "drawings"\n[data]\nset = "picturebook"\n'
_COHERENCE = {
    row: f'system = "cmcm"\n{_DRAWN}[model]\npooling = "{pooling}"\nrelations = "{relations}"\n'
    for row, (pooling, relations) in {
        "Base": ("none", "none"),
        "CMCA": ("scaled", "none"),
        "CMCM-NoAttn": ("none", "linear"),
        "CMCM": ("scaled", "linear"),
    }.items()
}
_METHODS = {
    "PVSE": "pvse",
    "THOMAS": "thomas",
    "HAL": "hal",
    "MITHUN": "mithun",
    "AMRANI": "amrani",
    "distance-weighted": "distance",
    "DISCREPANCY": "discrepancy",
    "DIVERSITY": "diversity",
    "COMBINED-VAL": "combined-val",
    "COMBINED-STATS": "combined-stats",
}
_ABLATION = {
    "random α": ("random", ""),
    "Γ=0": ("uniform", ""),
    **{
        f"{measure.upper()}{row}": (measure, setting)
        for measure in ("diversity", "discrepancy")
        for row, setting in {
            "": "",
            " Γ=+1": "gamma = 1",
            " sum": 'mode = "sum"',
            " x": 'mode = "x"',
            " y": 'mode = "y"',
        }.items()
    },
}


_GRAPHS = 'graphs = "drawn"'


def _weighed(method: str, weights: str = "") -> str:
    return f'system = "complementary"\nmethod = "{method}"\n{_DRAWN}[weights]\nlam = 8\n{weights}\n'


def _gsda(settings: str = _GRAPHS, more: str = "", model: str = "") -> str:
    return f'system = "gsda"\nkeys = "sentences"\n{settings}\n{more}\n{_DRAWN}[model]\n{model}\n'


ROWS: Mapping[str, Mapping[str, str]] = {
    "cmcm": _COHERENCE,
    "complementary-2": {row: _weighed(method) for row, method in _METHODS.items()}
    | {
        row: f'system = "vse"\nhinge = "{hinge}"\n{_DRAWN}'
        for row, hinge in (("VSE0", "sum"), ("VSE++", "max"))
    },
    "complementary-3": {row: _weighed(*how) for row, how in _ABLATION.items()},
    "vrss-1": {
        "LDA": f'system = "lda"\n{_DRAWN}',
        "VSE++": f'system = "vse"\nhinge = "max"\n{_DRAWN}',
        "CNSI": f'system = "cnsi"\n{_DRAWN}',
        "VRSS-VAE": f'system = "vrss"\n{_DRAWN}[model]\nlatents = false\n',
        "VRSS-GlobalCon": f'system = "vrss"\n{_DRAWN}[model]\ncontext = false\n',
        "VRSS": f'system = "vrss"\n{_DRAWN}',
    },
    "gsda-1": {
        "VSE0": f'system = "vse"\nhinge = "sum"\n{_DRAWN}',
        "VSE++": f'system = "vse"\nhinge = "max"\n{_DRAWN}',
        "CNSI": f'system = "cnsi"\n{_DRAWN}',
        "GSDA w/o CSE": _gsda(model='context = "none"'),
        "GSDA": _gsda(),
        "GSDA w/o graph": _gsda('graph = "off"'),
        "GSDA w/o dual": _gsda('caption = "off"', _GRAPHS),
        "GSDA w/o graph, w/o dual": _gsda('graph = "off"\ncaption = "off"'),
    },
}

STORIES = ("vrss-1", "gsda-1")


def smoke_measured(choices: Sequence[int] = (), table: str = "cmcm") -> "list[Measured]":
    """Train, measure and forget one tiny run per row of a table.

    Args:
        choices: options of c-way questions, see `limner.runs.run.Run.evaluate`.
        table: a name of `ROWS`.
    """
    from limner.runs.measure import SequenceMeter
    from limner.runs.train import train

    stories = SequenceMeter() if table in STORIES else None
    found = []
    with TemporaryDirectory(prefix="limner-smoke-") as folder:
        for number, (row, settings) in enumerate(ROWS[table].items()):
            config = Path(folder) / f"{number}.toml"
            config.write_text(f'row = "{row}"\n{settings}[loop]\nmetric = "MRR"\n', encoding="utf-8")
            run = train(config, to=Path(folder) / str(number), smoke=True)
            found.append(run.evaluate(choices=choices, distractors=Path(folder) / "choices", stories=stories))
    return found
