"""What ``limner study create`` is given to draw from, and the function that reads it."""

from pathlib import Path

from limner.errors import ConfigError
from limner.research.evaluation.results import Decoding
from limner.research.study.boards import boards_material
from limner.research.study.material import Material, items_material
from limner.research.study.measured import Part, relations_material, sequences_material
from limner.research.study.records import Protocol


def material_of(
    protocol: Protocol,
    tested: tuple[Path, ...],
    control: tuple[Path, ...],
    truth: tuple[Path, ...],
    items: Path | None,
    *,
    relations: tuple[str, ...],
    names: tuple[str, ...],
    part: Part,
    decoding: Decoding,
    refined: bool = False,
) -> Material:
    """What the options of ``limner study create`` name: a file of items, storyboards, or runs.

    Args:
        protocol: pairwise or tick-all.
        tested: runs or storyboards of the tested system.
        control: of the one that it is compared with.
        truth: storyboards with the true pictures.
        items: file of items, in place of all others.
        relations: to draw by, each a name or ``NAME=RUN``.
        names: of the systems by their letters.
        part: of the data set of measured runs.
        decoding: of measured stories.
        refined: pictures of measured runs after refinement.
    Raises:
        ConfigError: options that do not go together.
        LimnerError: as the function that is called.
    """
    runs = items is None and bool(control) and control[0].suffix != ".json"
    if not runs and (refined or decoding != "steps"):
        raise ConfigError("study: --refined and --decoding are of measured runs; leave them out")
    if items is not None:
        if tested or control or truth or relations:
            raise ConfigError("study: --items names all pictures itself; leave the other sources out")
        return items_material(protocol, items, names)
    if not control or not (tested or relations):
        raise ConfigError("study: name --tested and --control (runs or storyboards), or --items FILE")
    if control[0].suffix == ".json":
        if relations:
            raise ConfigError("study: storyboards have no relations to draw by; leave --relation out")
        return boards_material(protocol, tested, control, truth, names)
    if len(control) > 1 or len(tested) > 1 or truth:
        raise ConfigError(
            "study: one tested run and one control; --relation NAME=RUN names a tested run per relation,"
            " and runs know their true pictures"
        )
    if protocol == "tick-all":
        if relations or not tested:
            raise ConfigError("study: tick-all takes whole stories of --tested and --control, no --relation")
        return sequences_material(tested[0], control[0], part, decoding, names, refined=refined)
    return relations_material(
        _by_relation(relations, tested), control[0], part, names, refined=refined, decoding=decoding
    )


def _by_relation(relations: tuple[str, ...], tested: tuple[Path, ...]) -> dict[str, Path]:
    """Relation → tested run."""
    found: dict[str, Path] = {}
    for words in relations or ("all",):
        name, equals, run = words.partition("=")
        if not equals and not tested:
            raise ConfigError(f"study: --relation {words!r} names no run; add =RUN, or give --tested")
        if name in found:
            raise ConfigError(f"study: --relation {name!r} comes twice; name it once")
        found[name] = Path(run) if equals else tested[0]
    return found
