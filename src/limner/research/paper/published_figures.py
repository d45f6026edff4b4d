"""Published figures by name, made from measured runs."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from limner.config import flat
from limner.errors import ConfigError, DataError, MissingError, counted, unknown
from limner.research.datasets.neighbours import SCORES_FILE, read_pair_scores
from limner.research.evaluation.results import TOP, ChoiceResult, Result
from limner.research.evaluation.sequences import by_story, steps_of
from limner.research.evaluation.uncertainty import group_numbers
from limner.research.paper import plots
from limner.research.paper.comparison import Cohort, compare
from limner.research.paper.published import credits_of, questions_of, tables_of
from limner.research.paper.run_pages import (
    open_pictures,
    refined_top,
    titled,
    write_annotated,
    write_found,
    write_galleries,
    write_story_strips,
    write_weighted_pairs,
)
from limner.research.paper.table import reference
from limner.research.runs.measure import fixed_features
from limner.research.runs.run import Run
from limner.research.systems.vrss import Vrss
from limner.research.training import NAMES_AND_PLACES
from limner.research.training.checkpoint import HISTORY

FEWEST_POINTS = 8
SPLITS = ("released", "grouped", "random")
"""Splits in order of preference, the published one first."""


def draw_figure(
    name: str,
    to: Path,
    *,
    runs: Path | None,
    run: Sequence[Path],
    texts: Sequence[str],
    pictures: Sequence[str],
    relations: Sequence[str],
    weights: Path | None,
    data: str | None,
    split: str | None,
    row: str,
    count: int,
    resamples: int,
    given: Sequence[str] = (),
) -> None:
    """Draw a figure, or write a page of examples.

    Args:
        name: name of the figure, see `limner figure`.
        to: file to write.
        runs: folder of measured runs.
        run: folders of the runs to show.
        texts: texts to show; by default chosen by rule.
        pictures: ids of test pairs whose pictures are queries.
        relations: relations that the texts must have.
        weights: weights of the backbone, if features must be extracted.
        data: data set of the results; None uses the one that was measured, preferring Clue, then CITE++.
        split: its split; None uses the one that was measured, preferring the released one.
        row: row of the tables, for curves.
        count: number of texts, stories, pairs or steps, if none are named.
        resamples: number of resamples per interval.
        given: options that the user gave, without those common to all figures.
    Raises:
        ConfigError: unknown figure, unsuitable runs, or an option that the figure does not use.
        LimnerError: see the function of the figure.
    """

    def one() -> Path:
        if len(run) != 1:
            raise ConfigError(f"figure: {name} shows one run, found {len(run)}; pass one --run FOLDER")
        return run[0]

    def several() -> Sequence[Path]:
        if not run:
            raise ConfigError(f"figure: {name}: no run given; pass --run FOLDER once per run")
        return run

    def measured() -> Path:
        if runs is None:
            raise ConfigError(f"figure: {name} needs measured runs; pass --runs FOLDER")
        return runs

    def results(*, variants: bool = False) -> list[Result]:
        """Test results of one data set and split."""
        read = Result.read_all(measured(), variants=variants)
        every = [r for r in read if (r.about.part, r.about.protocol) == ("test", "pools")]
        own = data or _first_of([r.about.data for r in every], ("clue", "cite++"))
        part = split or _first_of([r.about.split for r in every if r.about.data == own], SPLITS)
        found = [r for r in every if (r.about.data, r.about.split) == (own, part)]
        if not found:
            there = sorted({f"{r.about.data} ({r.about.split} split)" for r in every})
            asked = f" on {own or 'any data set'} ({part or 'any'} split)"
            raise DataError(
                f"figure: no result{asked} below {runs}, found {', '.join(there) or 'none'};"
                " run 'limner measure' first, or name one of these with --data and --split"
            )
        return found

    def answered_split() -> str:
        """The split of the c-way results below `runs`."""
        answers = ChoiceResult.read_all(measured())
        return _first_of([r.about.split for r in answers if r.about.part == "test"], SPLITS) or "grouped"

    def found_pages() -> None:
        write_found(several(), to, texts=texts, pictures=pictures, count=count, weights=weights)

    def curve(setting: str) -> None:
        _curve(to, results(variants=True), row, setting, resamples)

    # figure → what draws it, and the options that it uses
    drawn: dict[str, tuple[Callable[[], None], str]] = {
        "cmcm-1": (lambda: _gallery(to, several(), texts, relations, 1, most=1), "run text relation"),
        "cmcm-3a": (lambda: plots.write(to, plots.confidence_curves), ""),
        "cmcm-3b": (lambda: _scatter(to, one()), "run"),
        "cmcm-4": (lambda: write_annotated(data or "clue", to, relations, count), "data relation count"),
        "cmcm-5": (lambda: _bars(to, results(), resamples), "runs data split resamples"),
        "cmcm-6": (lambda: _gallery(to, several(), texts, relations, count), "run text relation count"),
        "cmcm-9": (lambda: _gallery(to, several(), texts, relations, 1, each=True), "run text relation"),
        "cmcm-7": (lambda: _attention(to, several(), texts, count), "run text count"),
        "cmcm-8": (lambda: curve("loss.relation_weight"), "runs data split row resamples"),
        "cmcm-8-length": (lambda: curve("data.max_length"), "runs data split row resamples"),
        "cmcm-entropy": (lambda: _entropy(to, results(), resamples), "runs data split resamples"),
        "complementary-scores": (
            lambda: plots.write(to, plots.score_histograms, read_pair_scores(one()).measures()),
            "run",
        ),
        "complementary-agreement": (lambda: draw_agreement(one(), to), "run"),
        "complementary-weights": (lambda: plots.write(to, plots.training_of_weights, logged(one())), "run"),
        "complementary-variance": (
            lambda: draw_gains(measured(), split or answered_split(), to),
            "runs split",
        ),
        "complementary-3": (found_pages, "run text picture count weights"),
        "complementary-4": (lambda: write_weighted_pairs(one(), to, count), "run count"),
        "vrss-attention": (lambda: draw_attention(to, one(), texts, count), "run text count"),
        "vrss-galleries": (lambda: write_galleries(run, to, count), "run count"),
        "gsda-3": (lambda: write_story_strips(several(), to, texts, count, "test"), "run text count"),
        "gsda-strips": (lambda: write_story_strips(several(), to, texts, count), "run text count"),
        "vrss-features": (lambda: _feature_maps(to, several(), weights, count), "run weights count"),
    }
    if name not in drawn:
        raise ConfigError(unknown("figure", name, drawn))
    draw, used = drawn[name]
    unused = [one for one in given if one not in used.split()]
    if unused:
        uses = ", ".join(f"--{one}" for one in used.split()) or "no option but --to"
        raise ConfigError(f"figure: {name} does not use --{unused[0]}; it uses {uses}")
    draw()


def _scatter(to: Path, run: Path) -> None:
    result = Result.read_part(run, "val")  # thresholds are chosen on validation, so only its rows are shown
    full = result.full
    if full is None or not full.gaps:
        raise DataError(f"{run}: its result has no ranks among all pictures; measure the run again")
    threshold = float(result.about.refinement.get("threshold", np.inf))
    plots.write(to, plots.rank_against_gap, np.array(full.plain), np.array(full.gaps), threshold)


def _first_of(found: Sequence[str], preferred: Sequence[str]) -> str:
    """The first preferred one that exists, else the first by name; "" if there is none."""
    return min(found, key=lambda one: ([*preferred, one].index(one), one), default="")


def _bars(to: Path, found: Sequence[Result], resamples: int) -> None:
    data, split = found[0].about.data, found[0].about.split
    table = tables_of("cmcm-4" if data == "cite++" else "cmcm-5", found, data=data, resamples=resamples)
    own = [one for one in table if f"{split} split" in one.title]
    plots.write(to, plots.refinement_bars, own[0])


def _curve(to: Path, every: Sequence[Result], row: str, setting: str, resamples: int) -> None:
    """Curve: median rank of one row against λ_cls or the text length, for runs that differ in nothing else.

    Raises:
        DataError: there is no run of the row, or runs differ in other settings than that and the seed.
    """
    table, _, key = setting.partition(".")
    found = [one for one in every if one.about.system == row]
    if not found:
        raise DataError(f"figure: no run of {row} among these results; name another with --row")
    by_value: dict[float, list[Result]] = {}
    for result in found:
        if result.full is not None and key in result.about.config.get(table, {}):
            by_value.setdefault(float(result.about.config[table][key]), []).append(result)
    apart = {setting, "loop.seed", *NAMES_AND_PLACES}
    first, *rest = (flat(one.about.config) for one in found)
    for other in rest:
        differs = [name for name in sorted({*first, *other} - apart) if first.get(name) != other.get(name)]
        if differs:
            raise DataError(
                f"figure: runs of {row} differ in {differs[0]} ({first.get(differs[0])} and"
                f" {other.get(differs[0])}); give a folder of runs that differ only in {setting}"
            )
    points = [
        (value, *median)
        for value, some in sorted(by_value.items())
        if (median := _median(some, resamples)) is not None
    ]
    curves = reference()["cmcm-8-curves"]
    data = found[0].about.data
    published = curves["lambda" if table == "loss" else "length"] if data == "cite++" else []
    if data == "clue" and table == "data":
        published = curves["length_clue"]
    label = "words per text" if table == "data" else "weight of the relation loss, λ"
    plots.write(to, plots.setting_curve, label, points, published)


def _median(some: Sequence[Result], resamples: int) -> tuple[float, float, float] | None:
    """Median rank of one system over seeds and pools (after refinement, if any), with its interval."""
    cohort: Cohort[Result] = Cohort({}, *group_numbers(some[0].groups))
    pools = [
        (np.array(p.queries, dtype=np.int64), np.array(p.refined or p.plain))
        for result in some
        for p in (result.drawn or result.pools)
    ]
    cells, _ = compare([cohort.ranked("MedR", pools)], *cohort.size, resamples=resamples)
    value, low, high = cells[0].value, cells[0].low, cells[0].high
    return None if value is None or low is None or high is None else (value, low, high)


def _entropy(to: Path, found: Sequence[Result], resamples: int) -> None:
    """Plot the median rank of each CMCM_c against the entropy of its relation."""
    by_relation: dict[str, list[Result]] = {}
    for result in found:
        if result.about.system.startswith("CMCM_") and len(result.probabilities) == 1 and result.pools:
            by_relation.setdefault(next(iter(result.probabilities)), []).append(result)
    points = []
    for relation, some in sorted(by_relation.items()):
        share = float(np.mean(some[0].labels[relation]))
        middle = _median(some, resamples)
        if middle is not None:
            points.append((relation, -share * float(np.log(share)) if share else 0.0, *middle))
    plots.write(to, plots.rank_against_entropy, points)


def _attention(to: Path, runs: Sequence[Path], texts: Sequence[str], count: int) -> None:
    """Plot the attention weights of one or several runs over the words of texts."""
    opened = [Run.open(run) for run in runs]
    chosen = list(texts)
    if not chosen:
        data, _ = opened[0].data(files=True)
        chosen = [pair.text for pair in data.split("val")[:count]]
    shown = {
        title: one.model.attention(chosen)
        for title, one in zip(titled(runs, [one.name for one in opened]), opened, strict=True)
    }
    plots.write(to, plots.attention_bars, shown)


def _gallery(
    to: Path,
    runs: Sequence[Path],
    ids: Sequence[str],
    relations: Sequence[str],
    count: int,
    *,
    each: bool = False,
    most: int = TOP,
) -> None:
    """Draw the best pictures of several runs for the same texts, after refinement if a run refines.

    Args:
        to: file to write.
        runs: runs measured on one split.
        ids: ids of test pairs; by default texts for which the runs differ.
        relations: chosen texts have one of these relations; with `each`, all relations of the data set.
        count: number of texts, per relation if relations are given.
        each: whether to show a text for each relation of the data set.
        most: number of pictures per run.
    """
    results = [Result.read_part(run, "test") for run in runs]
    if any(result.ids != results[0].ids or not result.top for result in results):
        raise DataError("figure: the runs were measured on different pairs; measure them on one split")
    tops = [refined_top(run, result) for run, result in zip(runs, results, strict=True)]
    first = results[0]
    places = {name: row for row, name in enumerate(first.ids)}
    absent = [name for name in ids if name not in places]
    if absent:
        raise ConfigError(f"figure: {first.about.data} has no test pair {absent[0]!r}; name one by its id")
    for relation in relations:
        if relation not in first.labels:
            raise ConfigError(f"figure: {unknown('relation', relation, first.labels)}")
    # texts for which the systems differ come first: chosen by rule, not by hand
    telling = sorted(places.values(), key=lambda row: len({top[row] for top in tops}) == 1)
    wanted = list(relations) or (list(first.labels) if each else [])
    rows = [row for one in wanted for row in [row for row in telling if first.labels[one][row]][:count]]
    rows = [places[name] for name in ids] or list(dict.fromkeys(rows)) or ([] if wanted else telling[:count])
    if not rows:
        raise DataError(f"figure: no test text of {first.about.data} has {', '.join(wanted)}; name another")
    texts, picture = open_pictures(runs[0])
    shown = []
    for row in rows:
        name = first.ids[row]
        answers = []
        for result, top in zip(results, tops, strict=True):
            right = [picture.same(other, name) for other in top[row][:most]]
            pictures = [picture(other) for other in top[row][:most]]
            title = result.about.system + (", refined" if result.about.refinement else "")
            answers.append((title, pictures, right.index(True) if any(right) else None))
        stated = [one for one, labels in first.labels.items() if labels[row]]
        shown.append(plots.GalleryRow(texts[name], stated, picture(name), answers))
    plots.write(to, plots.gallery, shown)


def _feature_maps(to: Path, runs: Sequence[Path], weights: Path | None, most: int) -> None:
    """t-SNE maps of the stored features of the test pictures, one panel per run."""
    shown = {}
    for run in runs:
        opened = Run.open(run)
        data, pictures = opened.data(plain=True, weights=weights)
        ids = list(dict.fromkeys(pair.image_id for pair in data.split("test")))
        features, described, _ = fixed_features(pictures, ids)
        if features is None or len(ids) < FEWEST_POINTS:
            raise DataError(
                f"figure: {run}: {counted(len(ids), 'test picture')}; expected at least {FEWEST_POINTS} with"
                " stored features, from a run with a frozen backbone"
            )
        stories = {pair.image_id: pair.seq for pair in reversed(data.split("test"))}
        shown[f"{described}, {counted(len(ids), 'picture')}"] = (features, [stories[one] for one in ids])
    plots.write(to, plots.feature_maps, shown, most)


def draw_attention(to: Path, run: Path, stories: Sequence[str], count: int) -> None:
    """Draw attention maps of test stories.

    Args:
        to: .pdf, .png or .svg file.
        run: folder of a run whose model has attention over stories.
        stories: names of test stories; by default the first with more than one step.
        count: number of stories if none is named.
    Raises:
        ConfigError: the model has no such attention, or a story does not exist.
        DataError: the test part has no stories.
    """
    opened = Run.open(run)
    data, _ = opened.data(files=True)
    pairs = data.split("test")
    steps = steps_of(pairs)
    places = by_story(steps.stories)
    chosen = list(stories) or [story for story, own in places.items() if len(own) > 1][:count]
    shown = []
    for name in chosen:
        if name not in places:
            raise ConfigError("figure: " + unknown("test story", name, places))
        texts = [pairs[steps.rows[place]].text for place in places[name]]
        made = opened.model.story(texts) if isinstance(opened.model, Vrss) else None
        if made is None or made.attention is None:
            raise ConfigError(
                f"figure: {opened.name} has no attention over the steps of a story; name a run"
                " of VRSS trained with --set model.context=true"
            )
        shown.append(plots.Attended(name, texts, made.attention[0].float().cpu().numpy()))
    plots.write(to, plots.attention_maps, shown)


LOGGED = "weights/"


def draw_agreement(run: Path, to: Path) -> None:
    """Plot one measure against the other, with Spearman's correlation.

    Args:
        run: folder of a run that weights its pairs.
        to: file to write.
    Raises:
        MissingError, DataError: the run has no scores, or not those of two measures.
    """
    measures = read_pair_scores(run).measures()
    if len(measures) != 2 or len({tuple(part) for part in measures.values()}) != 1:
        raise DataError(
            f"{run}: has scores of {', '.join(measures) or 'no measure'}; expected both measures of the same"
            " modalities"
        )
    # Υ combines the modalities of a pair, so the measures are compared by their mean over modalities
    names = sorted(measures, reverse=True)
    first, second = (sum(measures[one].values()) / len(measures[one]) for one in names)
    plots.write(to, plots.agreement, first, second, names, reference()["scores"]["spearman"])


def draw_gains(runs: Path, split: str, to: Path) -> None:
    """Plot the gain of each measure against the deviation of its scores, over data sets.

    Args:
        runs: folder of measured runs, with pair scores.
        split: split of the results.
        to: file to write.
    Raises:
        DataError: there are no such runs.
    """
    own = _gains(runs, split)
    if not own:
        raise DataError(
            f"{runs}: no run of a measure and of PVSE on one data set ({split} split); train them and run"
            " 'limner measure' with --choices"
        )
    plots.write(to, plots.gain_against_deviation, [*own, *_published_gains()])


def _gains(runs: Path, split: str) -> list[plots.Gain]:
    """One gain per measure, data set and number of options for which PVSE was measured too."""
    deviations: dict[tuple[str, str], list[float]] = {}
    for file in sorted(runs.glob(f"**/{SCORES_FILE}")):
        answered = sorted((file.parent / ChoiceResult.FOLDER).glob("*way.json"))
        scores = read_pair_scores(file.parent).measures() if answered else {}
        for measure, by_modality in scores.items():
            about = ChoiceResult.read(answered[0]).about
            if about.system == measure:
                spread = float(np.mean([values.std() for values in by_modality.values()]))
                deviations.setdefault((about.data, measure), []).append(spread)
    chosen = [r for r in ChoiceResult.read_all(runs) if (r.about.part, r.about.split) == ("test", split)]
    control = reference()["complementary-2"]["control"]
    found = []
    for one in questions_of(chosen):
        base = credits_of(one.runs(control), 2)
        for measure in reference()["measures"].values():
            own, known = credits_of(one.runs(measure), 2), deviations.get((one.data, measure))
            if base is not None and own is not None and known:
                gain = float(own.mean() - base.mean())
                found.append(plots.Gain(f"{one.data} {one.c}-way", measure, float(np.mean(known)), gain))
    return found


def _published_gains() -> list[plots.Gain]:
    rows, sets = reference()["complementary-2"]["rows"], reference()["sets"]
    return [
        plots.Gain(
            entry["title"],
            measure,
            entry[measure.lower()]["deviation"],
            float(np.mean(rows[measure][data]) - np.mean(rows["PVSE"][data])),
            published=True,
        )
        for data, entry in sets.items()
        for measure in reference()["measures"].values()
    ]


def logged(run: Path) -> list[dict[str, float]]:
    """Logged statistics of the weights for each epoch, without the common prefix.

    Raises:
        MissingError, DataError: the folder has no history of a run.
    """
    file = run / HISTORY
    try:
        lines: list[dict[str, Any]] = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    except FileNotFoundError:
        raise MissingError(f"{file}: does not exist; give the folder of a trained run") from None
    except ValueError as error:
        raise DataError(f"{file}: not the history of a run ({error}); train it again") from error
    return [
        {
            name.removeprefix(LOGGED): value
            for name, value in {**line.get("loss", {}), **line.get("val", {})}.items()
            if name.startswith(LOGGED)
        }
        for line in lines
    ]
