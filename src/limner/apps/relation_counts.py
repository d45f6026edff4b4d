"""Counts annotated relations into a prior, with a bar, and tells what was counted.

`limner.data.visual_genome` reads and counts; this finds the files and writes the result.
"""

from collections.abc import Sequence
from pathlib import Path

from limner.apps.progress import IndexProgress
from limner.data.relation_prior import save_prior
from limner.data.visual_genome import PriorReport, count_relations, read_names
from limner.errors import ConfigError, MissingError


def build_prior(
    files: Sequence[Path], to: Path, *, names: Path | None = None, only: Path | None = None
) -> PriorReport:
    """Count relations and save the prior.

    Args:
        files: annotated relations.
        to: a .safetensors file; an existing one is replaced.
        names: what to count; None for the most frequent names.
        only: text file of picture ids, one a line; None for all pictures.
    Raises:
        ConfigError: `to` has another suffix, or the list of ids is not UTF-8.
        MissingError, DataError: see `count_relations`.
    """
    if to.suffix.lower() != ".safetensors":
        raise ConfigError(f"build-prior: {to}: name a .safetensors file by --to")
    if not to.parent.is_dir():
        raise MissingError(f"build-prior: the folder {to.parent} does not exist; create it")
    with IndexProgress() as progress:
        progress.stage("counting", None)
        prior, report = count_relations(
            files,
            read_names(names) if names is not None else None,
            only=_ids(only) if only is not None else None,
            seen=progress.advance,
        )
    save_prior(prior, to)
    return report


def told(report: PriorReport, to: Path) -> list[str]:
    """A report as lines to read."""
    lines = [f"{to}: {report.relations:,} relations of {report.pictures:,} pictures"]
    if report.outside:
        first = ", ".join(f"{name} {count:,}" for name, count in report.outside_names[:10])
        lines.append(f"{report.outside:,} relations have a name outside the vocabulary; most often: {first}")
    return lines


def _ids(path: Path) -> frozenset[str]:
    """Ids of a text file."""
    try:
        return frozenset(
            line.strip() for line in path.read_text(encoding="utf-8").split("\n") if line.strip()
        )
    except OSError as error:
        raise MissingError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8; expected picture ids, one a line") from error
