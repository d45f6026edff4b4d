"""Training settings of a table's runs, and differences between compared rows.

Systems that are compared should be trained on the same data, for equally long, with the same backbone and
dimension; tables report where they were not.
"""

from collections.abc import Iterable, Sequence

from limner.config import flat
from limner.research.evaluation.results import About, ResultFile
from limner.research.paper.table import RunSettings, reference
from limner.research.training import NAMES_AND_PLACES

NOT_RECORDED = "not recorded"
SHARED = ("data.", "loop.", "model.dim")
"""Prefixes of the settings that should be equal in all rows of a table."""
APART = NAMES_AND_PLACES | {"data.set", "data.relations", "data.shuffle_relations", "loop.seed"}
"""Exceptions: settings in which rows may differ, or that are always shown."""
WITHOUT = ("data set", "split", "preset", "backbone", "settings")
"""What is compared for runs whose settings were not recorded."""
WORDS = {True: "on", False: "off", None: "none", "finetune": "trained"}


def settings_of(runs: Iterable[ResultFile]) -> RunSettings | None:
    """Settings of the runs of one row; None if there are none.

    Args:
        runs: runs of one system on one split, of any data sets and seeds.
    """
    found = [run.about for run in runs]
    return settings_from(found) if found else None


def settings_from(found: Sequence[About]) -> RunSettings:
    """`settings_of`, from the descriptions of at least one run."""
    deviations, some = _common([one.deviations for one in found])
    departures, others = _common([one.departures for one in found])
    return RunSettings(
        preset=_together(one.preset for one in found),
        deviations=deviations,
        some=some,
        departures=(*(departures or ()), *others),
        reduced=any(one.reduced for one in found),
        backbone=_together(one.backbone for one in found),
        seeds=tuple(sorted({one.seed for one in found})),
        data=tuple(dict.fromkeys(one.data for one in found)),
        split=_together(one.split for one in found),
        factors=tuple(dict.fromkeys(words for one in found for words in borrowed_factors(one))),
    )


def _common(lists: Sequence[Sequence[str] | None]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Entries that all runs have, None if a run has no list; and those of only some runs. Not the seed."""
    known = [[one for one in some if not one.startswith("loop.seed=")] for some in lists if some is not None]
    every = tuple(one for one in known[0] if all(one in other for other in known)) if known else ()
    some = tuple(dict.fromkeys(one for own in known for one in own if one not in every))
    return (every if len(known) == len(lists) else None), some


def uneven(own: Sequence[ResultFile], control: Sequence[ResultFile]) -> str:
    """Differences between the settings of two compared rows; "" if there are none or a row has no run.

    Args:
        own: runs of the row, measured on the same data as the control.
        control: runs of the control.
    """
    if not own or not control:
        return ""
    mine, other = _shared(own), _shared(control)
    if mine["settings"] != other["settings"]:  # settings of one were not recorded
        mine, other = ({key: values[key] for key in WITHOUT if key in values} for values in (mine, other))
    return "; ".join(
        f"{key} {_written(mine.get(key))} (control: {_written(other.get(key))})"
        for key in dict.fromkeys((*mine, *other))
        if mine.get(key) != other.get(key) or len(mine[key]) > 1
    )


def seeds(*systems: Sequence[object]) -> str:
    """Remark on the number of runs, if it is more than one or differs between rows."""
    counts = sorted({len(runs) for runs in systems if runs})
    if counts in ([], [1]):
        return ""
    return f"{'–'.join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))} seeds"


def borrowed_factors(about: About) -> list[str]:
    """The factors (β, γ) of a run of COMBINED-VAL on a set without published ones, and whose they are.

    Args:
        about: description of the run.
    Source: T&K 2022, Table 1; docs/methods/complementary.md §6.3.
    """
    sets, values = reference()["sets"], flat(about.config)
    if about.data in sets or values.get("method") != "combined-val":
        return []
    own = (values["weights.beta"], values["weights.gamma_hat"])
    words = f"(β, γ) = ({own[0]:g}, {own[1]:g})"
    same = [one["title"] for one in sets.values() if tuple(one["beta_gamma"]) == own]
    return [f"{words}, the paper's for {' and '.join(same)}" if same else words]


def _shared(runs: Sequence[ResultFile]) -> dict[str, frozenset[str]]:
    """Setting → its values as text, for all settings that the rows of a table should share."""
    found: dict[str, set[str]] = {}
    for run in runs:
        about, values = run.about, flat(run.about.config)
        own = dict(zip(WITHOUT, (about.data, about.split, about.preset, about.backbone, ""), strict=True))
        own |= {
            key: _word(value)
            for key, value in values.items()
            if key.startswith(SHARED) and key not in APART and not (about.backbone and key == "data.backbone")
        }
        if any(key.startswith("loop.") for key in values):
            own["settings"] = "recorded"
        for key, value in own.items():
            found.setdefault(key, set()).add(value or NOT_RECORDED)
    return {key: frozenset(values) for key, values in found.items()}


def _together(values: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(one for one in values if one))


def _written(values: frozenset[str] | None) -> str:
    return " and ".join(sorted(values)) if values else NOT_RECORDED


def _word(value: object) -> str:
    if isinstance(value, bool | str | None):
        return WORDS.get(value, str(value))
    return f"{value:g}" if isinstance(value, float) else str(value)
