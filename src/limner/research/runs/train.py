"""A settings file becomes a trained run.

Library code: it reports what happens through a callback and prints nothing.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from limner.checksums import forget, noting
from limner.config import flat
from limner.counts import counted
from limner.errors import ConfigError, DataError
from limner.files import write_text
from limner.research.datasets.pairs import MissingPicture
from limner.research.runs.run import Run, extra_encoders
from limner.research.runs.validation import (
    chosen_refinement,
    maximise,
    measured,
    validation,
    write_refinement,
)
from limner.research.systems import read_config, system
from limner.research.systems.base import Capabilities, backbone_of
from limner.research.training import processes
from limner.research.training.corpus import Corpus, corpus_of, open_corpus
from limner.research.training.loop import BEST, Event
from limner.research.training.settings import RunConfig, replaced

if TYPE_CHECKING:
    from limner.arrays import TextEncoder
    from limner.research.datasets.features import Layer


class StoppedError(KeyboardInterrupt):
    """Whoever watches asked to stop; the state is saved, and the same call goes on from there."""


@dataclass(frozen=True)
class Note:
    """A line for whoever trains."""

    text: str


@dataclass(frozen=True)
class FeatureProgress:
    """Pictures whose features are there, of those that have to be.

    Attributes:
        done, total: pictures.
    """

    done: int
    total: int


Progress = Callable[[Note | FeatureProgress | Event], object]
"""Told what happens; True after a step or an epoch asks to save and stop."""


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
    """Train a system as its settings say; a folder that holds a stopped run goes on.

    The test split is dropped before anything is made from the data. Under torchrun the processes train
    together, and each is told of its own steps.

    Args:
        config: a settings file, TOML, or settings.
        to: folder of the run; made if absent.
        data: what is laid over the file, see `limner.research.systems.overlays`.
        overrides: ``key=value`` that replace settings of a file, such as ``loop.lr=2e-4``, or a map of them.
        smoke: shrink everything to a run of seconds, to see that it works.
        weights: of the backbone: a file, or a folder to look in; with `smoke`, without them, a tiny backbone
            of random weights takes its place.
        device: what trains, see `limner.devices.device_of`; under torchrun, cuda is one card per process.
        progress: told of notes, pictures read, steps and epochs.
    Returns:
        The run, with its best weights on validation.
    Raises:
        ConfigError: a setting is wrong, or does not fit the data.
        StoppedError: `progress` asked to stop.
        LimnerError: as the data, the weights and `limner.research.systems.base.System.train`.
    """
    device = processes.join(device)
    first = processes.rank() == 0
    to = Path(to).expanduser()
    given: Sequence[str] = ()
    if not isinstance(config, RunConfig):
        if isinstance(overrides, Mapping):  # JSON's numbers, words and lists are TOML's as well
            overrides = [f"{key}={json.dumps(value, default=str)}" for key, value in overrides.items()]
        given = overrides
        config = read_config(Path(config).expanduser(), overrides, data)
    elif overrides or data:
        raise ConfigError("train: overrides and data go with a settings file; these are settings already")
    settings = shrunk(config, weights) if smoke else config
    own = system(settings.system)
    can = own.capabilities(settings)
    measured(settings.loop.metric, can)
    if settings.loop.precision != "float32" and not can.gradients:
        raise ConfigError(
            f"train: {settings.system} is fitted at once, in full precision; leave loop.precision out"
        )
    if processes.several() and not can.gradients:
        raise ConfigError(f"train: {settings.system} is fitted at once, by one process; leave torchrun out")
    more_is_better = maximise(settings.loop.metric)

    def read(done: int, total: int) -> None:
        progress(FeatureProgress(done, total))

    with processes.first_alone():
        found, pictures = open_corpus(
            settings.data,
            files=can.backbone == "finetune",
            layer=can.layer,
            mirrored=can.mirrored,
            weights=weights,
            device=device,
            report=read,
            beside=extra_encoders(settings.data),
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
        f" preset {settings.preset}, deviations: {', '.join(settings.deviations()) or 'none'}"
    )
    position, finished = own.train(
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
    processes.mirror(to / BEST)
    processes.leave()
    if not finished:
        raise StoppedError
    run = replace(Run.open(to, device), position=position)
    if first:
        _conclude(run, corpus, note)
    return run


def shrunk(config: RunConfig, weights: Path | None) -> RunConfig:
    """Settings of a run of seconds; the backbone stays the one named where weights are given for it."""
    kept = {} if weights is None else {"data": {"backbone": config.data.backbone}}
    small: RunConfig = replaced(config.smoke(), kept)
    return small


def replaced_by_smoke(config: RunConfig, small: RunConfig, given: Sequence[str]) -> list[str]:
    """A line on each ``key=value`` that a run of seconds does not follow.

    Args:
        config: settings as they were asked for.
        small: as they are.
        given: ``key=value`` or ``key``.
    """
    asked, used = flat(config.model_dump(mode="json")), flat(small.model_dump(mode="json"))
    keys = [one.partition("=")[0].strip() for one in given]
    return [
        f"--smoke replaces --set {key}={asked[key]} by {used[key]}"
        for key in dict.fromkeys(keys)
        if key in asked and asked[key] != used.get(key)
    ]


def _text_encoders(can: Capabilities) -> "dict[str, TextEncoder | None]":
    """The frozen encoders of texts that training needs, by the names of `System.prepare`."""
    if not can.encoders:
        return {}
    from limner.encoders.catalogue import MULTILINGUAL, SENTENCES, text_encoder

    named = {"sentences": SENTENCES, "multilingual": MULTILINGUAL}
    return {name: text_encoder(named[name]) for name in can.encoders}


def _backbone(settings: RunConfig, layer: "Layer", weights: Path | None) -> tuple[nn.Module, int]:
    """The pretrained backbone in training form, giving vectors or grids, and its width."""
    from limner.encoders.catalogue import weight_file
    from limner.encoders.pixels import build
    from limner.encoders.weight_files import read_state

    name = settings.data.backbone
    file = weight_file(name, weights)
    built = build(name, read_state(file), str(file.path))
    return backbone_of(built.network, name, layer, built.width)


def _conclude(run: Run, corpus: Corpus, note: Callable[[str], Any]) -> None:
    """Choose on validation, and store, how relations refine scores, or what a metric's cosines say."""
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
            note(f"{error}; until then 'limner illustrate --metric' will not take this run")


LEFT_OUT = "left_out.jsonl"


def write_left_out(missing: Sequence[MissingPicture], run: Path) -> str:
    """Write the list, whole or not at all, or remove that of an earlier start when nothing is left out now.

    Args:
        missing: pairs left out, each with picture and reason.
        run: folder of the run; made if absent.
    Returns:
        A line for the person; "" when nothing was left out.
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
