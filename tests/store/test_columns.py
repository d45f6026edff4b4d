"""The list of pictures by key is the list that a plain reading of all rows gives, and holds none of them."""

import errno
import gc
import hashlib
import os
import random
import string
import tracemalloc
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_pictures import catalogue_of, ids_of, stored

from limner.errors import LimnerWarning
from limner.store import columns
from limner.store.browse import Catalogue, Only
from limner.store.library import picture_of
from limner.store.store import PICTURES, PICTURES_SCHEMA

LETTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\0/")
NAMES = st.text(LETTERS, min_size=1, max_size=6)
FOLDERS = st.sampled_from(["/p", "/p/a", "/p/a b", "/Ünï/ΣΑΣ", "s3://bucket/x", ""])
DAYS = ["2023-07-14T12:00:00", "2023-07-14T16:30:00+02:00", "2023-07-15T09:00:00.5", "1999-01-01T00:00:00"]


def sha(number):
    return hashlib.sha256(str(number).encode()).hexdigest()


@st.composite
def tables(draw):
    """Rows in the order of writing; some pictures have no file, some several, some look the same."""
    rows = []
    for number in range(draw(st.integers(0, 9))):
        names = draw(st.lists(st.tuples(FOLDERS, NAMES), max_size=3, unique=True))
        # no two pictures are in one file
        paths = [f"{folder}/{name}{number}" if folder else f"{name}{number}" for folder, name in names]
        captions = draw(st.lists(st.text(LETTERS, min_size=1, max_size=8), max_size=2))
        width, height = draw(st.sampled_from([(40, 30), (30, 40), (31, 30)]))
        rows.append(
            {
                "id": sha(number),
                "paths": sorted(paths),
                "width_px": width,
                "height_px": height,
                "format": "PNG",
                "size_bytes": number,
                "phash": "0" * 16,
                "group": sha(draw(st.integers(0, number))),
                "taken": draw(st.none() | st.sampled_from(DAYS)),
                "captions": [{"text": one, "source": "exif"} for one in captions],
                "labels": draw(st.sampled_from([None, [], [{"name": "Füchse", "probability": 0.5}]])),
                "credit": draw(st.text(LETTERS, max_size=3)),
                "license": "",
            }
        )
    return rows


class PlainList:
    """All rows in a list, and every question by a walk through it."""

    def __init__(self, rows):
        self.rows = sorted((row for row in rows if row["paths"]), key=lambda row: row["paths"][0].encode())

    def pictures(self, rows):
        return [picture_of(row) for row in rows]

    def page(self, words, only, used):
        words = " ".join(words.split()).lower()
        return [row for row in self.rows if self.fits(row, words, only, used)]

    def fits(self, row, words, only, used):
        said = [path.rpartition("/")[2] for path in row["paths"]]
        said += [one["text"] for one in row["captions"] or ()]
        day, below = (row["taken"] or "")[:10], only.folder.rstrip("/") + "/"
        return (
            (not words or any(words in one.lower() for one in said))
            and (not only.folder or any(path.startswith(below) for path in row["paths"]))
            and (only.dated is None or bool(day) == only.dated)
            and (only.after is None or day >= only.after.isoformat())
            and (only.before is None or "" < day <= only.before.isoformat())
            and (only.captioned is None or bool(row["captions"]) == only.captioned)
            and (only.used is None or (row["id"] in used) == only.used)
            and (
                only.shape is None
                or only.shape == {40: "landscape", 30: "portrait", 31: "square"}[row["width_px"]]
            )
        )

    def alike(self):
        groups = {}
        for row in self.rows:
            groups.setdefault(row["group"], []).append(row)
        return [rows for rows in groups.values() if len(rows) > 1 or len(rows[0]["paths"]) > 1]


SHAPES = {40: "landscape", 30: "portrait", 31: "square"}
CONDITIONS = st.builds(
    Only,
    folder=st.just("") | FOLDERS,
    after=st.none() | st.dates(),
    before=st.none() | st.dates(),
    dated=st.none() | st.booleans(),
    shape=st.sampled_from([None, "landscape", "portrait", "square"]),
    used=st.none() | st.booleans(),
    captioned=st.none() | st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(rows=tables(), only=CONDITIONS, data=st.data())
def test_the_list_by_key_is_a_plain_list(tmp_path_factory, rows, only, data):
    plain, folder = PlainList(rows), tmp_path_factory.mktemp("library")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "PART_ROWS", data.draw(st.integers(1, 4)))
        catalogue = catalogue_of(folder, rows, pieces=data.draw(st.integers(1, 4)))
    ids = [row["id"] for row in plain.rows]
    assert (len(catalogue), ids_of(catalogue)) == (len(ids), ids)
    asked = data.draw(st.permutations(ids))
    assert catalogue.pictures(asked) == plain.pictures(
        {row["id"]: row for row in plain.rows}[one] for one in asked
    )
    gone = [row["id"] for row in rows if not row["paths"]]
    assert [one in catalogue for one in [*ids, *gone, sha("new"), sha(0).upper(), "x", None]] == [
        True for _ in ids
    ] + [False] * (len(gone) + 4)
    said = [one["text"] for row in rows for one in row["captions"] or ()]
    words = data.draw(st.just("") | st.text(LETTERS, max_size=3) | st.sampled_from([*said, ""]))
    used = set(ids[::2]) | {"nobody"}
    due = plain.page(words, only, used)
    offset, limit = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    total, page = catalogue.page(offset, limit, words, only=only, used=used)
    assert (total, page) == (len(due), plain.pictures(due[offset : offset + limit]))
    assert catalogue.alike == len(plain.alike())
    assert catalogue.duplicates(0, 9) == [(rows[0]["group"], plain.pictures(rows)) for rows in plain.alike()]
    assert catalogue.duplicates(1, 1) == catalogue.duplicates(0, 9)[1:2]
    assert catalogue.files == sum(len(row["paths"]) for row in plain.rows)
    for row in plain.rows:
        taken = row["taken"] or ""
        same = [other for other in plain.rows if taken and (other["taken"] or "")[:10] == taken[:10]] or [row]
        day = sorted(same, key=lambda other: other["taken"] or "")
        assert catalogue.same_occasion(row["id"]) == plain.pictures(day)
    told = catalogue.facets(used)
    assert told.undated + sum(told.months.values()) == sum(told.shapes.values()) == len(ids)
    for inner, count in told.folders.items():
        assert count >= len(plain.page("", Only(folder=inner), used)) > 0
    assert told.used == len(ids[::2])
    assert told.uncaptioned == sum(not row["captions"] for row in plain.rows)


def rows_of(count):
    """Each in a folder of a hundred, with a caption; the last two show the same."""
    return [
        {
            **dict.fromkeys(PICTURES_SCHEMA.names),
            "id": sha(number),
            "paths": [f"/p/{number % 100}/IMG_{number:06}.jpg"],
            "width_px": 40,
            "height_px": 30,
            "format": "PNG",
            "size_bytes": 1,
            "phash": "0" * 16,
            "group": sha(min(number, count - 2)),
            "taken": f"2020-01-{1 + number % 28:02}T10:00:00",
            "captions": [{"text": f"a boat of {number}", "source": "exif"}],
            "credit": "",
            "license": "",
        }
        for number in range(count)
    ]


def everything(catalogue):
    """What the studio asks for, once."""
    total, page = catalogue.page(5, 7)
    words = catalogue.page(0, 3, "boat of 1", only=Only(folder="/p/1"))
    own = [one.id for one in page]
    occasion = catalogue.same_occasion(own[0])[:3]
    return (
        total,
        page,
        words,
        catalogue.pictures(own),
        occasion,
        catalogue.facets(own),
        catalogue.duplicates(0, 9),
    )


@pytest.mark.slow
def test_what_is_held_does_not_grow_with_the_pictures(tmp_path):
    few, many = 2_000, 8_000
    kept = []
    for count in (few, few, many):
        folder = tmp_path / str(count)
        store = stored(folder, rows_of(count)) if not folder.exists() else stored(folder, [])
        everything(Catalogue.read(store, folder / "cache"))  # writes what is kept
        gc.collect()
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        catalogue = Catalogue.read(store, folder / "cache")
        everything(catalogue)
        gc.collect()
        kept.append(tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - before)
        tracemalloc.stop()
        assert len(catalogue) == count
    # A list of all would take 8 bytes a picture for the references alone.
    assert kept[2] - kept[1] < 2 * (many - few)


def test_only_new_pieces_are_read(tmp_path, monkeypatch):
    rows = rows_of(300)
    store, cache = stored(tmp_path, rows, pieces=3), tmp_path / "cache"
    due = everything(Catalogue.read(store, cache))
    read = []
    scan = store.scan_pieces
    monkeypatch.setattr(
        store,
        "scan_pieces",
        lambda whole, numbers, *rest: read.extend(numbers) or scan(whole, numbers, *rest),
    )
    before = {path.name for path in (cache / PICTURES).iterdir()}
    assert everything(Catalogue.read(store, cache)) == due
    assert read == []
    rows[250]["captions"] = [{"text": "a goat", "source": "exif"}]
    store.upsert(PICTURES, pa.Table.from_pylist([rows[250]], PICTURES_SCHEMA))
    changed = Catalogue.read(store, cache)
    assert changed.page(0, 9, "goat") == (1, [picture_of(rows[250])])
    assert len(set(read)) == 2  # the piece that lost a row and the one that holds it now
    after = {path.name for path in (cache / PICTURES).iterdir()}
    assert len(before & after) == 3  # the other two pieces, and the lock
    store.compact()
    assert everything(Catalogue.read(store, cache))[0] == 300


def test_a_flipped_bit_changes_no_answer_and_is_mended(tmp_path):
    store, cache = stored(tmp_path, rows_of(20), pieces=2), tmp_path / "cache"
    due, draw = everything(Catalogue.read(store, cache)), random.Random(0)
    names = sorted(path.name for path in (cache / PICTURES).glob("*.arrow"))
    assert len(names) == 3
    for name in names:
        path = cache / PICTURES / name
        for number in draw.sample(range(path.stat().st_size), 5):
            data = bytearray(path.read_bytes())
            data[number] ^= 1 << draw.randrange(8)
            path.write_bytes(data)
            with pytest.warns(LimnerWarning, match="damaged; it is made again"):
                assert everything(Catalogue.read(store, cache)) == due
    assert sorted(path.name for path in (cache / PICTURES).glob("*.arrow")) == names


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_disk_that_takes_nothing_changes_no_answer(tmp_path, monkeypatch, number):
    store, cache = stored(tmp_path, rows_of(20), pieces=2), tmp_path / "cache"
    due = everything(catalogue_of(tmp_path / "other", rows_of(20)))

    def refused(self, mode="r", *rest, **named):
        if set(mode) & set("wxa+"):
            raise OSError(number, os.strerror(number), str(self))
        return opens(self, mode, *rest, **named)

    opens = Path.open
    monkeypatch.setattr(Path, "open", refused)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert everything(Catalogue.read(store, cache)) == due
    assert not list((cache / PICTURES).glob("*.arrow"))


def test_words_are_found_in_any_script(tmp_path):
    """In lower case as Python has it, which a final sigma and a dotted capital I tell from Arrow's."""
    rows = rows_of(3)
    for row, text in zip(rows, ("ΟΔΟΣ", "İSTANBUL", string.punctuation), strict=True):
        row["captions"] = [{"text": text, "source": "exif"}]
    catalogue = catalogue_of(tmp_path, rows)
    for row in rows:
        assert catalogue.page(0, 9, row["captions"][0]["text"]) == (1, [picture_of(row)])
