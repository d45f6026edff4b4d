"""R@k and median ranks of the systems whose c-way accuracies are tabulated, against all pictures.

c-way accuracy is the paper's only measure and hides how a system ranks a whole collection; the same runs are
shown here by ranks, text to picture. It measures nothing and has no published figure to compare with.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from limner.errors import DataError
from limner.evaluation.choice_cohorts import plain_name
from limner.evaluation.choice_results import ChoiceResult
from limner.evaluation.comparison import Figure, compare, rank_figure
from limner.evaluation.results import About, PoolRanks, Result
from limner.evaluation.tables import Block, Row, Table
from limner.evaluation.uncertainty import RESAMPLES, group_numbers

METRICS = ("MedR", "R@1", "R@5", "R@10")


def rank_tables(
    results: Sequence[Result],
    answered: Sequence[ChoiceResult],
    order: Sequence[str],
    control: str,
    *,
    resamples: int = RESAMPLES,
) -> list[Table]:
    """One table per data set and split, of the test results whose runs also answered c-way questions.

    Args:
        results: as `results.read_results` gives them.
        answered: whose runs are shown.
        order: systems that come first, where they were measured.
        control: what every other system is compared with.
        resamples: of every interval and comparison.
    Raises:
        DataError: two runs on one data set were evaluated on different pairs.
    """
    shown = {_run(one.about) for one in answered if one.about.part == "test"}
    where: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if _run(result.about) in shown and result.about.part == "test" and result.full is not None:
            where.setdefault((result.about.data, result.about.split), []).append(result)
    return [
        _table(f"{data}, {split} split", where[data, split], order, control, resamples)
        for data, split in sorted(where)
    ]


def _run(about: About) -> tuple[object, ...]:
    return about.system, about.preset, about.data, about.split, about.seed


def _table(
    where: str, results: Sequence[Result], order: Sequence[str], control: str, resamples: int
) -> Table:
    abouts = [result.about for result in results]
    systems: dict[str, list[Result]] = {}
    for result in results:
        if result.ids != results[0].ids:
            raise DataError(
                f"{where}: {result.about.system} and {results[0].about.system} were evaluated on different"
                " pairs; evaluate both on one split seed"
            )
        systems.setdefault(plain_name(result.about, abouts), []).append(result)
    owner, groups = group_numbers(results[0].groups)
    names = [*(name for name in order if name in systems), *(name for name in systems if name not in order)]
    figures: list[Figure] = []
    for name in names:
        pools = [
            (np.array(pool.queries, dtype=np.int64), np.array(pool.plain, dtype=np.float64))
            for pool in _full(systems[name])
        ]
        figures += [rank_figure(metric, pools, owner, groups) for metric in METRICS]
    width = len(METRICS)
    first = names.index(control) * width if control in names else None
    against = [
        None if first is None or place // width * width == first else first + place % width
        for place in range(len(figures))
    ]
    cells, compared = compare(figures, against, owner, groups, resamples=resamples)
    size = next(pool.pictures for pool in _full(results))
    return Table(
        name="complementary-2",
        title=f"Text to picture, all {size} pictures ({where})",
        corner="system",
        blocks=(Block(title="", columns=METRICS),),
        rows=tuple(
            Row(
                name=name,
                remark=f"{len(systems[name])} seeds" if len(systems[name]) > 1 else "",
                cells=tuple(cells[place * width : (place + 1) * width]),
            )
            for place, name in enumerate(names)
        ),
        notes=(
            "Brackets: 95 % bootstrap interval by duplicate group of the mean over seeds. The paper gives no"
            " ranks.",
            f"* better, † worse than {control}: paired bootstrap of {resamples} resamples by duplicate group,"
            f" p < .05 after Holm's correction for {compared} comparisons."
            if compared
            else f"No marks: nothing to compare with {control}, or fewer than ten duplicate groups.",
        ),
    )


def _full(results: Iterable[Result]) -> list[PoolRanks]:
    """Ranks against all pictures, where there are some."""
    return [result.full for result in results if result.full is not None]
