"""From material to a registered study: draw, copy, blind, add attention checks, write.

The folder appears whole or not at all, and nothing in what raters see tells a system. It serves no page.
"""

import math
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from limner import __version__
from limner.apps.study.checks import attention_checks
from limner.apps.study.material import Material, Proposal
from limner.apps.study.registration import StudySettings, hypotheses_of, planned_analysis
from limner.apps.study.shown_pictures import ShownPictures
from limner.data.studies import Candidate, Item, Key, KeyEntry, Population, Study
from limner.data.study_files import ITEMS, KEY, PICTURES, POPULATION, STUDY, item_lines, registered
from limner.errors import ConfigError, DataError
from limner.evaluation.study_sampling import draw, shuffled

Draft = tuple[Item, KeyEntry]
"""An item with a placeholder for its id, and its entry in the key."""
UNNAMED = "x"


def create_study(to: Path, material: Material, settings: StudySettings) -> Study:
    """Write a study folder.

    Args:
        to: folder to make; absent or empty.
        material: what can be drawn.
        settings: what is asked, of whom, and how it will be analysed.
    Returns:
        The registration.
    Raises:
        DataError: the folder is not empty, or a picture does not open.
        ConfigError: a setting does not go with the material.
    """
    _check_strata(material)
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise DataError(f"{to}: not an empty folder; name a new one for the study")
    population = draw(material.strata, settings.size, settings.seed)
    part = to.with_name(f".{to.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        (part / PICTURES).mkdir(parents=True)
        study = _write(part, material, population, settings)
        if to.exists():
            to.rmdir()
        part.replace(to)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return study


def _check_strata(material: Material) -> None:
    """Refuse strata that a report could not tell apart."""
    if "all" in material.strata and len(material.strata) > 1:
        raise ConfigError("study: stratum 'all' stands for everything; give the strata other names")
    if set(material.strata) != set(material.systems):
        raise ConfigError("study: every stratum needs the names of its systems")


def _write(folder: Path, material: Material, population: Population, settings: StudySettings) -> Study:
    shown = ShownPictures(folder / PICTURES)
    pages: list[list[Draft]] = []
    for stratum, drawn in population.strata.items():
        for name in drawn.drawn:
            proposals = material.look_up(stratum, name)
            for one in proposals:
                if not one.text.strip():
                    raise DataError(f"study: {one.source!r} has no words; mend or remove it in the data")
            if material.unit == "item":
                pages += [[_pair(one, stratum, shown, settings.seed)] for one in proposals]
            else:
                pages.append([_step(one, stratum, shown, settings.seed) for one in proposals])
    asked = [page for page in pages if not page[0][0].prefilled]
    wanted = math.ceil(settings.checks * len(asked))
    checks = attention_checks(settings.protocol, asked, wanted, settings.seed)
    items, entries = _named([*pages, *checks], settings.seed)
    key = Key(systems=material.systems, items=entries)
    content = {
        ITEMS: item_lines(items),
        KEY: key.model_dump_json(indent=1).encode("utf-8"),
        POPULATION: population.model_dump_json(indent=1).encode("utf-8"),
    }
    study = registered(_values(items, entries, material, population, settings), content)
    for name, data in content.items():
        (folder / name).write_bytes(data)
    (folder / STUDY).write_text(study.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return study


def _values(
    items: Sequence[Item],
    entries: Mapping[str, KeyEntry],
    material: Material,
    population: Population,
    settings: StudySettings,
) -> dict[str, Any]:
    """Fields of the registration."""
    checks = sum(entry.right is not None for entry in entries.values())
    prefilled = sum(item.prefilled is not None for item in items)
    sizes = {
        name: {"population": len(one.population), "drawn": len(one.drawn)}
        for name, one in population.strata.items()
    }
    judged = len(items) - checks
    return {
        "protocol": settings.protocol,
        "title": settings.title,
        "question": settings.question,
        "consent": settings.consent,
        "hypotheses": settings.hypotheses or hypotheses_of(settings.protocol),
        "systems": tuple(next(iter(material.systems.values()))),
        "items": len(items) - prefilled,
        "prefilled": prefilled,
        "checks": checks,
        "check_share": settings.checks,
        "raters_per_item": settings.raters,
        "sample": {"unit": material.unit, "seed": settings.seed, "strata": sizes},
        "level": settings.level,
        "power": settings.power,
        "analysis": planned_analysis(settings, judged, len(sizes)),
        "created": datetime.now(UTC),
        "version": __version__,
    }


def _pair(one: Proposal, stratum: str, shown: ShownPictures, seed: int) -> Draft:
    """A pair in a canonical order that says nothing; equal pictures are pre-filled."""
    pictures = {letter: shown.add(picture) for letter, picture in one.pictures.items()}
    sides = dict(
        zip(("first", "second"), shuffled(pictures, seed, "sides", stratum, one.source), strict=True)
    )
    item = Item(
        id=UNNAMED,
        text=one.text,
        context=one.context,
        candidates=tuple(Candidate(id=side, picture=pictures[letter]) for side, letter in sides.items()),
        stratum=stratum,
        position=one.position,
        prefilled="same" if len(set(pictures.values())) == 1 else None,
    )
    systems = {side: (letter,) for side, letter in sides.items()}
    return item, KeyEntry(systems=systems, source=one.source, cluster=one.cluster)


def _step(one: Proposal, stratum: str, shown: ShownPictures, seed: int) -> Draft:
    """A step with every different picture once, in a canonical order that says nothing."""
    owners: dict[str, list[str]] = {}
    for letter, picture in one.pictures.items():
        owners.setdefault(shown.add(picture), []).append(letter)
    order = shuffled(owners, seed, "order", stratum, one.source)
    ids = dict(zip("abcdefghijklmnopqrstuvwxyz", order, strict=False))
    item = Item(
        id=UNNAMED,
        text=one.text,
        candidates=tuple(Candidate(id=name, picture=picture) for name, picture in ids.items()),
        stratum=stratum,
        sequence=UNNAMED,
        position=one.position,
    )
    systems = {name: tuple(owners[picture]) for name, picture in ids.items()}
    return item, KeyEntry(systems=systems, source=one.source, cluster=one.cluster)


def _named(pages: Sequence[Sequence[Draft]], seed: int) -> tuple[list[Item], dict[str, KeyEntry]]:
    """Items under numbers in an order that tells neither strata nor checks, and their entries."""
    order = shuffled((str(number) for number in range(len(pages))), seed, "pages")
    items: list[Item] = []
    entries: dict[str, KeyEntry] = {}
    for page, number in enumerate(order, start=1):
        for item, entry in pages[int(number)]:
            name = f"i{len(items) + 1:05d}"
            sequence = f"s{page:05d}" if item.sequence else ""
            items.append(item.model_copy(update={"id": name, "sequence": sequence}))
            entries[name] = entry
    return items, entries
