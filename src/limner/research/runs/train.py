"""Trains a run from a settings file: reads settings, trains the model, and selects weights on validation.

Weights of a system with a text encoder are selected by a figure of its validation scores without refinement;
the refinement is chosen once, afterwards.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from limner.checksums import forget, noting
from limner.config import build, flat, merged, read_toml
from limner.errors import ConfigError, DataError, counted, unknown
from limner.files import write_text
from limner.research.datasets.pairs import MissingPicture, data_sets, known_set, text_id
from limner.research.evaluation.ranking import (
    ALL,
    BLOCK_CELLS,
    Metric,
    Ranking,
    Score,
    average_precision,
    host,
    rank,
    rank_blocks,
)
from limner.research.evaluation.refinement import (
    STRENGTHS,
    THRESHOLDS,
    Refinement,
    choose,
    pair_logits,
    write_refinement,
)
from limner.research.nn.backbones import backbone_of
from limner.research.runs.fit import fit
from limner.research.runs.run import Run, extra_encoders, vectors
from limner.research.systems.base import (
    Capabilities,
    Model,
    RefinedScores,
    names,
    system,
)
from limner.research.training import processes
from limner.research.training.corpus import Corpus, corpus_of, open_corpus
from limner.research.training.loop import Event
from limner.research.training.processes import all_reduce
from limner.research.training.settings import RunConfig, replaced

if TYPE_CHECKING:
    from limner.arrays import TextEncoder
    from limner.research.datasets.features import Layer


def read_config(path: Path, overrides: Sequence[str] = (), data: str = "") -> RunConfig:
    """Read the settings of a run: from a row's file, then a data set's overlay, then ``key=value``.

    Args:
        path: TOML file of the row.
        overrides: see `limner.config.build`; another preset replaces all settings that the file only repeats
            from its own preset.
        data: overlay (name or file, see `overlays`) or registered data set to train on; "" for the set named
            in `overrides` or the row's file. The overlay with the set's name is applied; training on a set
            without an overlay is a deviation.
    Raises:
        ConfigError: the file does not exist, it names no system or an unknown one, no data set is named, or
            a setting is wrong.
    """
    values = read_toml(path)
    name = values.get("system")
    if not isinstance(name, str):
        raise ConfigError(f"{path}: names no system; write system = 'cmcm' (choices: {', '.join(names())})")
    settings: type[RunConfig] = system(name).settings
    where = f"{path} with {data}" if data else str(path)
    files = _overlays(path)
    name = data or _given("data.set", overrides) or values.get("data", {}).get("set", "")
    if not name:
        known = ", ".join(sorted({*files, *data_sets()}))
        raise ConfigError(f"{path}: names no data set; add --data NAME (choices: {known})")
    overlay = None
    if name in files or (data and data.endswith(".toml")):
        overlay = overlays(values, path, name, settings.PRESETS)
    elif data and known_set(data):
        values = merged(values, {"data": {"set": data}})
    elif data:
        raise ConfigError(unknown("data", data, {*files, *data_sets()}))
    preset, others = _given("preset", overrides), [one for one in overrides if _key(one) != "preset"]
    return build(settings, settings.resolved(values, preset, overlay), where, others)


def _key(override: str) -> str:
    return override.partition("=")[0].strip()


def _given(key: str, overrides: Sequence[str]) -> str:
    """The last value given for a setting by ``key=value``; "" if there is none."""
    found = [one.partition("=")[2].strip().strip("\"'") for one in overrides if _key(one) == key]
    return found[-1] if found else ""


def overlays(
    values: Mapping[str, Any], row: Path, data: str, presets: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Read an overlay: a data set's settings for a row.

    An overlay is a TOML file with settings for all systems; tables ``[SYSTEM]`` for one system; and in these
    ``[[SYSTEM.rows]]`` for the rows whose files are listed in ``names``. Later ones override earlier ones.
    Tables ``[PRESET]``, such as ``[laptop]``, have the same form and apply only with that preset.

    Args:
        values: settings of the row.
        row: its file; overlays are in a folder ``data`` next to it or one level up.
        data: name of an overlay (that of the data set), or its file.
        presets: names of presets.
    Returns:
        Settings by preset; those under "" always apply.
    Raises:
        ConfigError: the table of the system has another form, or the overlay has the name of a registered set
            but is for another.
    """
    file = _overlays(row).get(data, Path(data))
    over = read_toml(file)
    named = over.get("data", {}).get("set", data)
    if data != named and known_set(data):
        raise ConfigError(
            f"{file}: is for the data set {named!r}, but {data!r} is another one; rename it to {named}.toml"
        )
    tables = {name: over.pop(name) for name in presets if isinstance(over.get(name), dict)}
    return {
        name: _for_row(values["system"], row.stem, table, f"{data}: {name}".removesuffix(": "))
        for name, table in {"": over, **tables}.items()
    }


def _for_row(system_name: str, row: str, over: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Settings of an overlay for one row of one system."""
    own = over.get(system_name, {})
    rows = own.get("rows", []) if isinstance(own, dict) else None
    if not isinstance(rows, list) or not all(isinstance(table, dict) and "names" in table for table in rows):
        raise ConfigError(
            f"{where}: {system_name}: expected a table of settings, in which 'rows' are tables with 'names'"
        )
    systems = names()
    whole = {key: value for key, value in over.items() if key not in systems}
    whole = merged(whole, {key: value for key, value in own.items() if key != "rows"})
    for table in rows:
        if row in table["names"]:
            whole = merged(whole, {key: value for key, value in table.items() if key != "names"})
    return whole


def _overlays(row: Path) -> dict[str, Path]:
    """Name → file of the overlays for a row; those next to it take precedence."""
    folders = (row.absolute().parents[1] / "data", row.parent / "data")
    return {file.stem: file for folder in folders for file in sorted(folder.glob("*.toml"))}


class StoppedError(KeyboardInterrupt):
    """The callback asked to stop; the state is saved, and the same call continues from there."""


@dataclass(frozen=True)
class Note:
    """A message for the user."""

    text: str


@dataclass(frozen=True)
class FeatureProgress:
    """Progress of feature extraction.

    Attributes:
        done, total: numbers of pictures.
    """

    done: int
    total: int


Progress = Callable[[Note | FeatureProgress | Event], object]
"""Receives events; returning True after a step or epoch saves and stops."""


def train(
    config: str | Path | RunConfig,
    *,
    to: str | Path,
    data: str = "",
    overrides: Sequence[str] | Mapping[str, object] = (),
    smoke: bool = False,
    weights: Path | None = None,
    device: str = "cpu",
    progress: Progress = lambda news: None,
) -> Run:
    """Train a system from settings; a folder with a stopped run is resumed.

    The test split is dropped first. Under torchrun the processes train together, and each reports its own
    steps.

    Args:
        config: TOML settings file, or settings.
        to: run folder; created if missing.
        data: overlay or data set, see `read_config`.
        overrides: ``key=value`` that replace settings of a file, such as ``loop.lr=2e-4``, or a map of them.
        smoke: whether to shrink everything to a run of a few seconds, as a test.
        weights: weight file of the backbone, or its folder; with `smoke` and without weights, a tiny random
            backbone is used.
        device: see `limner.devices.device_of`; under torchrun, cuda means one GPU per process.
        progress: receives notes, progress of feature extraction, steps and epochs.
    Returns:
        The run, with its best weights on validation.
    Raises:
        ConfigError: a setting is wrong, or does not suit the data.
        StoppedError: `progress` asked to stop.
        LimnerError: errors of the data, the weights and `limner.research.runs.fit.fit`.
    """
    device = processes.join(device)
    first = processes.rank() == 0
    to = Path(to).expanduser()
    given: Sequence[str] = ()
    if not isinstance(config, RunConfig):
        if isinstance(overrides, Mapping):  # JSON values are valid TOML values
            overrides = [f"{key}={json.dumps(value, default=str)}" for key, value in overrides.items()]
        given = overrides
        config = read_config(Path(config).expanduser(), overrides, data)
    elif overrides or data:
        raise ConfigError(
            "train: overrides and data apply to a settings file, but config is settings; leave them out"
        )
    settings = shrunk(config, weights) if smoke else config
    own = system(settings.system)
    can = own.capabilities(settings)
    measured(settings.loop.metric, can)
    if settings.loop.precision != "float32" and not can.gradients:
        raise ConfigError(
            f"train: {settings.system} is fitted at once, in full precision; leave loop.precision out"
        )
    if processes.is_distributed() and not can.gradients:
        raise ConfigError(f"train: {settings.system} is fitted at once, by one process; leave torchrun out")
    more_is_better = maximise(settings.loop.metric)

    def read(done: int, total: int) -> None:
        progress(FeatureProgress(done, total))

    with processes.main_first():
        found, pictures = open_corpus(
            settings.data,
            files=can.backbone == "finetune",
            layer=can.layer,
            mirrored=can.mirrored,
            weights=weights,
            device=device,
            report=read,
            extra_encoders=extra_encoders(settings.data),
        )
    chosen = settings.data
    corpus = corpus_of(found, pictures, chosen.relations, chosen.limit, chosen.validation_sample)

    def note(line: str) -> None:
        if first and line:
            progress(Note(line))

    if first:
        replacing = replaced_by_smoke(config, settings, given)
        for line in (*replacing, *found.notes, write_left_out(found.missing, to)):
            note(line)
    drawn = f" (drawn from {corpus.held_out}, data.validation_sample)" if corpus.held_out else ""
    note(
        f"{corpus.name}: {len(corpus.train)} training and"
        f" {counted(len(corpus.val), 'validation pair')}{drawn};"
        f" preset {settings.preset}, deviations: {', '.join(settings.deviations()) or 'none'};"
        f" departures from the paper: {', '.join(settings.departures()) or 'none'}"
    )
    position, finished = fit(
        own,
        settings,
        corpus,
        to,
        validate=validation(corpus, can, settings.loop.metric),
        maximise=more_is_better,
        report=progress,
        note=note,
        device=device,
        pretrained=_backbone(settings, can.layer, weights) if can.backbone == "finetune" else None,
        **_text_encoders(can),
    )
    processes.barrier()  # so that all find the weights of the first
    processes.leave()
    if not finished:
        raise StoppedError
    run = replace(Run.open(to, device), position=position)
    if first:
        _conclude(run, corpus, note)
    return run


def shrunk(config: RunConfig, weights: Path | None) -> RunConfig:
    """Settings for a run of a few seconds; the backbone is kept if weights are given for it."""
    kept = {} if weights is None else {"data": {"backbone": config.data.backbone}}
    small: RunConfig = replaced(config.smoke(), kept)
    return small


def replaced_by_smoke(config: RunConfig, small: RunConfig, given: Sequence[str]) -> list[str]:
    """A message for each given setting that `smoke` replaces.

    Args:
        config: requested settings.
        small: settings used.
        given: ``key=value`` or ``key``.
    """
    asked, used = flat(config.model_dump(mode="json")), flat(small.model_dump(mode="json"))
    keys = [one.partition("=")[0].strip() for one in given]
    return [
        f"--smoke replaces --set {key}={asked[key]} with {used[key]}"
        for key in dict.fromkeys(keys)
        if key in asked and asked[key] != used.get(key)
    ]


def _text_encoders(can: Capabilities) -> "dict[str, TextEncoder | None]":
    """The frozen text encoders that training needs, by name."""
    if not can.encoders:
        return {}
    from limner.encoders.catalogue import MULTILINGUAL, SENTENCES, text_encoder

    named = {"sentences": SENTENCES, "multilingual": MULTILINGUAL}
    return {name: text_encoder(named[name]) for name in can.encoders}


def _backbone(settings: RunConfig, layer: "Layer", weights: Path | None) -> tuple[nn.Module, int]:
    """The pretrained backbone for fine-tuning, with vectors or grids as output, and its output dimension."""
    from limner.encoders.catalogue import weight_file
    from limner.encoders.pixels import build
    from limner.encoders.weight_files import read_state

    name = settings.data.backbone
    file = weight_file(name, weights)
    built = build(name, read_state(file), str(file.path))
    return backbone_of(built.network, name, layer, built.width)


def _conclude(run: Run, corpus: Corpus, note: Callable[[str], Any]) -> None:
    """Choose the refinement, or calibrate a same-document metric, on validation, and store the result."""
    stated = run.can.refinement
    if stated is not None:
        refinement = chosen_refinement(run.model, corpus, run.can)
        write_refinement(run.folder, refinement)
        strength, threshold = (
            f"{value:g} {'chosen on validation' if given is None else 'as stated'}"
            for value, given in (
                (refinement.strength, stated.strength),
                (refinement.threshold, stated.threshold),
            )
        )
        note(f"refinement: strength {strength}, threshold {threshold}")
    if not run.can.texts:
        from limner.research.runs.metric import fit_pairwise, write_pairwise

        try:
            write_pairwise(run.folder, fit_pairwise(run.model, corpus))
        except DataError as error:
            note(f"{error}; until then 'limner illustrate --metric' cannot use this run")


LEFT_OUT = "left_out.jsonl"


def write_left_out(missing: Sequence[MissingPicture], run: Path) -> str:
    """Write the list of pairs left out, atomically; if there are none, remove an old list.

    Args:
        missing: pairs left out, each with picture and reason.
        run: run folder; created if missing.
    Returns:
        A message for the user; "" if nothing was left out.
    """
    target = run / LEFT_OUT
    if not missing:
        target.unlink(missing_ok=True)
        forget(run, LEFT_OUT)
        return ""
    text = "".join(f"{json.dumps(one.model_dump())}\n" for one in missing)
    with noting(run, LEFT_OUT, text.encode()):
        write_text(target, text)
    pictures = len({one.image for one in missing})
    left_out = f"{counted(len(missing), 'pair')} of {counted(pictures, 'picture')} left out"
    return f"{target}: {left_out}, each with its reason"


METRICS = ("MedR", "R@1", "R@5", "R@10", "MRR")
MAP = "mAP"
CHOICE = "C@"
HINGE = "hinge"
_BLOCK = 512
"""Queries per block, of which each is ranked by one process."""


def validation(corpus: Corpus, can: Capabilities, metric: str = "") -> Callable[[Any], Mapping[str, float]]:
    """Return a function that measures a model on the validation rows, against all their pictures.

    Figures: MedR, R@1, R@5, R@10 (fractions) and MRR; mAP over the relations that occur, if relations are
    predicted; for a model of pictures only, R@1 and mAP of same-story pictures (see
    `limner.research.evaluation.stories`); C@c, the mean c-way accuracy of both directions; and hinge, the
    validation loss (see `mean_hinge`).

    Args:
        corpus: corpus; only `val` is used.
        can: capabilities of the system.
        metric: the figure that selects weights; C@c and hinge are measured only if named here.
    Returns:
        Function from a model to its figures by name.
    Raises:
        ConfigError: see `choices_of`.
        DataError: there are too few validation pairs for the number of options.
    """
    if not can.texts:
        from limner.research.runs.metric import validation_of_pictures

        return validation_of_pictures(corpus)
    rows = corpus.val
    texts_of, images_of = [text_id(pair.text) for pair in rows.pairs], [pair.image_id for pair in rows.pairs]
    questions = {}
    for c in choices_of(metric):
        from limner.research.evaluation.choice import answer, draw_choices

        questions[c] = partial(answer, choices=draw_choices(texts_of, images_of, c))

    def measure(model: Model) -> dict[str, float]:
        texts, images, columns = vectors(model, corpus.pictures, rows, can)
        score, shape = model.scorer(texts, images), (len(texts), len(images))
        right = columns[:, None].tolist()
        ranking = shared_ranking(score, shape, right, model.device)
        found = {name: Metric.parse(name)(ranking) for name in METRICS}
        for c, answered in questions.items():
            found[f"{CHOICE}{c}"] = float(np.mean(answered(score, np.arange(len(columns)), columns)))
        if metric == HINGE:
            found[HINGE] = mean_hinge(score, len(images), columns, can.margin, model.device)
        if can.refinement:
            probabilities = model.relation_probabilities(texts, images[columns]).astype(np.float64)
            known = [c for c in range(rows.labels.shape[1]) if rows.labels[:, c].any()]
            values = [
                average_precision(probabilities[:, c], rows.labels[:, c].astype(np.int64)) for c in known
            ]
            if values:
                found[MAP] = float(np.mean(values))
        return found

    return measure


def shared_ranking(
    score: Score, shape: tuple[int, int], right: Sequence[Sequence[int]], device: torch.device
) -> Ranking:
    """`limner.research.evaluation.ranking.rank_blocks`, with each block ranked by one process."""
    rows, size = shape
    counts = np.zeros((3, rows), np.int64)
    for start in range(0, rows, _BLOCK)[processes.rank() :: processes.world_size()]:
        stop = min(start + _BLOCK, rows)

        def some(first: int, last: int, start: int = start) -> Any:  # noqa: ANN401  (see `Score`)
            return score(slice(start + first, start + last), ALL)

        found = rank_blocks(some, (stop - start, size), right[start:stop], first=start)
        counts[:, start:stop] = found.better, found.equal, found.tied
    better, equal, tied = all_reduce(counts, device)
    return Ranking(better, equal, tied, size)


def mean_hinge(
    score: Score,
    pictures: int,
    columns: NDArray[np.int64],
    margin: float,
    device: torch.device | None = None,
) -> float:
    """Validation loss: mean hinge over all wrong pairs, in both directions.

    Args:
        score: scores of N texts with M pictures, by blocks.
        pictures: number of pictures, M.
        columns: (N,) picture of each text; other texts of a picture are not wrong.
        margin: score units, > 0.
        device: device of the process group, if there are several processes.
    Returns:
        Mean of both directions over all wrong pairs; 0 if there are none.
    Source: T&K 2022, Section 3.5 (selection by validation loss); docs/methods/complementary.md §7.1 with
    all weights 1 and all pictures at once.
    """
    rows, step = len(columns), max(1, BLOCK_CELLS // pictures // 4)  # memory also holds the costs of a block
    blocks = [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
    blocks = blocks[processes.rank() :: processes.world_size()]
    true, costs = np.zeros(rows, np.float32), np.zeros((2, rows))
    for some in blocks:
        true[some] = host(score(some, ALL))[np.arange(some.stop - some.start), columns[some]]
    true = all_reduce(true, device)
    best = np.full(pictures, -np.inf, np.float32)
    np.maximum.at(best, columns, true)  # of several texts of a picture, the best counts
    for some in blocks:
        table = host(score(some, ALL))
        wrong = columns[some, None] != np.arange(pictures)
        for direction, reference in enumerate((true[some, None], best)):
            found = np.maximum(0, margin + table - reference)
            # summed text by text, so that the result does not depend on the block size
            costs[direction, some] = found.sum(axis=1, where=wrong, dtype=np.float64)
    costs = all_reduce(costs, device)
    count = 2 * rows * (pictures - 1)
    return float(costs.sum()) / count if count else 0.0


def choices_of(metric: str) -> tuple[int, ...]:
    """The number of options of a metric C@c, as a tuple of one; empty for another metric.

    Raises:
        ConfigError: C@ is not followed by an integer of at least 2.
    """
    if not metric.startswith(CHOICE):
        return ()
    cut = metric.removeprefix(CHOICE)
    if not (cut.isascii() and cut.isdigit() and int(cut) >= 2 and not cut.startswith("0")):
        raise ConfigError(f"metric: {metric!r}, expected an integer of at least 2 after C@, such as C@5")
    return (int(cut),)


def measured(metric: str, can: Capabilities) -> tuple[str, ...]:
    """Names of the validation figures of runs that are selected by `metric`.

    Raises:
        ConfigError: `metric` is not one of them, or C@ is not followed by an integer of at least 2.
    """
    if not can.texts:
        found: tuple[str, ...] = ("R@1", MAP)
    else:
        found = (*METRICS, *(f"{CHOICE}{c}" for c in choices_of(metric)))
        if can.margin is not None and metric == HINGE:
            found += (HINGE,)
        if can.refinement:
            found += (MAP,)
    if metric not in found:
        raise ConfigError(unknown("validation figure", metric, found))
    return found


def maximise(metric: str) -> bool:
    """Whether higher values of a figure are better.

    Raises:
        ConfigError: unknown metric.
    """
    if metric == HINGE:
        return False
    return metric == MAP or bool(choices_of(metric)) or Metric.parse(metric).higher_is_better


def chosen_refinement(model: Model, corpus: Corpus, can: Capabilities) -> Refinement:
    """The refinement in the settings; parameters that are None there are chosen on the validation rows.

    Args:
        model: model that predicts relations.
        corpus: corpus; only `val` is used.
        can: capabilities of its system.
    """
    stated = can.refinement or RefinedScores("multiply")
    if stated.strength is not None and stated.threshold is not None:
        return Refinement(stated.strength, stated.threshold, stated.form)
    texts, images, columns = vectors(model, corpus.pictures, corpus.val, can)
    right = columns[:, None].tolist()
    return choose(
        model.scorer(texts, images),
        pair_logits(model, texts, images),
        lambda table, some: rank(table, right[some], first=some.start).ranks(),
        strengths=STRENGTHS if stated.strength is None else (stated.strength,),
        thresholds=THRESHOLDS if stated.threshold is None else (stated.threshold,),
        form=stated.form,
    )
