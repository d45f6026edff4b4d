"""Small studies in folders, and a PostgreSQL server of the tests' own."""

import hashlib
import importlib.util
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from limner.research.study.records import (
    Item,
    Key,
    KeyEntry,
    Population,
    RatedPicture,
    Sample,
    SampleDraw,
    Stratum,
    write_study,
)

SECRET_NAMES = ("CMCM-secret-system", "Base-secret-system", "gold-secret-system")
STRATUM = "Visible-secret-stratum"


def drawing(number: int, size: tuple[int, int] = (120, 90)) -> bytes:
    """A picture of its own, as PNG."""
    image = Image.new("RGB", size, ((number * 67) % 255, (number * 131) % 255, (number * 29 + 90) % 255))
    draw = ImageDraw.Draw(image)
    draw.text((10, 10), str(number), fill="white")
    draw.ellipse((30, 20, 90, 80), outline="white", width=3 + number % 5)
    out = BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _picture(folder: Path, number: int) -> str:
    data = drawing(number)
    name = hashlib.sha256(data).hexdigest() + ".png"
    (folder / "pictures" / name).write_bytes(data)
    return name


def _write(folder: Path, protocol: str, items, entries, *, raters: int, checks: int = 0) -> Path:
    key = Key(
        systems={STRATUM: dict(zip("ABC", SECRET_NAMES, strict=True))},
        items=entries,
    )
    drawn = SampleDraw(population=tuple(sorted(entries)), drawn=tuple(sorted(entries)))
    population = Population(seed=3, strata={STRATUM: drawn})
    unit = "item" if protocol == "pairwise" else "sequence"
    write_study(
        folder,
        {
            "protocol": protocol,
            "title": "Pictures for stories",
            "question": "Which picture fits the marked words better?",
            "consent": "Your answers are stored without your name and may be published.",
            "hypotheses": (f"{SECRET_NAMES[0]} is better.",),
            "systems": ("A", "B") if protocol == "pairwise" else ("A", "B", "C"),
            "items": sum(item.prefilled is None for item in items),
            "prefilled": sum(item.prefilled is not None for item in items),
            "checks": checks,
            "raters_per_item": raters,
            "sample": Sample(unit=unit, seed=3, strata={STRATUM: Stratum(population=99, drawn=9)}),
            "created": datetime(2026, 1, 2, tzinfo=UTC),
        },
        items,
        key,
        population,
    )
    return folder


def pairwise(folder: Path, items: int = 6, *, raters: int = 3, checks: int = 1) -> Path:
    """Pairs with a story around them, one pre-filled pair, and checks whose right answer is first."""
    (folder / "pictures").mkdir(parents=True)
    made, entries = [], {}
    for number in range(items + checks + 1):
        left = _picture(folder, 2 * number)
        right = left if number == items + checks else _picture(folder, 2 * number + 1)
        name = f"i{number:03}"
        check = items <= number < items + checks
        texts = (f"Text before {number}.", f"A <b>fox</b> meets boat {number}.", f"Text after {number}.")
        made.append(
            Item(
                id=name,
                text=texts[1],
                context=() if check else texts,
                position=0 if check else 1,
                candidates=(RatedPicture(id="first", picture=left), RatedPicture(id="second", picture=right)),
                stratum=STRATUM,
                prefilled="same" if left == right else None,
            )
        )
        entries[name] = (
            KeyEntry(right="first") if check else KeyEntry(systems={"first": ("A",), "second": ("B",)})
        )
    return _write(folder, "pairwise", made, entries, raters=raters, checks=checks)


def tick_all(folder: Path, sequences: int = 3, *, steps: int = 3, raters: int = 2) -> Path:
    """Sequences of steps with three candidates each."""
    (folder / "pictures").mkdir(parents=True)
    made, entries = [], {}
    for sequence in range(sequences):
        for step in range(steps):
            name = f"s{sequence}-{step}"
            first = 3 * (sequence * steps + step)
            pictures = [_picture(folder, first + number) for number in range(3)]
            made.append(
                Item(
                    id=name,
                    text=f"Step {step} of {sequence}: stir the pot.",
                    candidates=tuple(
                        RatedPicture(id=letter, picture=picture)
                        for letter, picture in zip("pqr", pictures, strict=True)
                    ),
                    stratum=STRATUM,
                    sequence=f"q{sequence}",
                    position=step,
                )
            )
            entries[name] = KeyEntry(systems={"p": ("A",), "q": ("B",), "r": ("C",)})
    return _write(folder, "tick-all", made, entries, raters=raters)


@pytest.fixture(scope="session")
def pairwise_study():
    """`pairwise`: several folders have a conftest, so none can be imported."""
    return pairwise


@pytest.fixture(scope="session")
def tick_all_study():
    """`tick_all`."""
    return tick_all


@pytest.fixture(scope="session")
def postgres():
    """A server for the session, or a skip that says what is missing."""
    path = Path(__file__).parents[3] / "benchmarks" / "postgres_server.py"
    spec = importlib.util.spec_from_file_location("postgres_server", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.binaries() is None:
        pytest.skip("no PostgreSQL server on this machine; Debian: apt-get install postgresql")
    with module.running() as server:
        yield server


@pytest.fixture
def database_url(request, tmp_path):
    """Where votes go: SQLite, and PostgreSQL in tests that ask for both."""
    if request.param == "sqlite":
        return str(tmp_path / "elsewhere.sqlite")
    return request.getfixturevalue("postgres").url
