"""A list of pictures by folder, day, shape, use, words and day."""

import gc
import hashlib
import os
import string
import tracemalloc
from collections import Counter
from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_pictures import catalogue_of, ids_of, stored
from PIL import Image

from limner.errors import DataError
from limner.scale.catalogue import Catalogue, picture_of
from limner.scale.ingest import index
from limner.scale.library import PictureStore
from limner.store import Only

SIZES = ((40, 30), (30, 40), (30, 30), (31, 30))
SHAPES = ("landscape", "portrait", "square", "square")


def made_up(count):
    """Rows over seven folders and two years, a third without a day, a quarter without words."""
    rows = []
    for number in range(count):
        width, height = SIZES[number % 4]
        day = date.fromordinal(date(2023, 1, 1).toordinal() + number % 700).isoformat()
        folder = f"/p/{'ab'[number % 2]}/{number % 7}" if number % 11 else "/p/a"
        rows.append(
            {
                "id": f"{number:064x}",
                "paths": [
                    f"{folder}/IMG_{number:06}.jpg",
                    *([f"/q/{number}.jpg"] if number % 50 == 0 else []),
                ],
                "width_px": width,
                "height_px": height,
                "format": "JPEG",
                "size_bytes": 9,
                "phash": "0" * 16,
                "group": hashlib.sha256(str(number).encode()).hexdigest(),
                "taken": f"{day}T10:{number % 60:02}:00" + ("+02:00" if number % 2 else "")
                if number % 3
                else None,
                "captions": [{"text": f"picture {number}", "source": "exif"}] if number % 4 else [],
                "labels": None,
                "credit": "",
                "license": "",
                "taken_from": "",
                "camera": "",
            }
        )
    return rows


def fits(row, only, used):
    day = (row["taken"] or "")[:10]
    number = int(row["id"], 16)
    return all(
        (
            not only.folder or any(path.startswith(only.folder.rstrip("/") + "/") for path in row["paths"]),
            only.after is None or (day and day >= only.after.isoformat()),
            only.before is None or (day and day <= only.before.isoformat()),
            only.dated is None or bool(day) == only.dated,
            only.shape is None or SHAPES[number % 4] == only.shape,
            only.used is None or (row["id"] in used) == only.used,
            only.captioned is None or bool(row["captions"]) == only.captioned,
        )
    )


ASKED = [
    Only(folder="/p/a"),
    Only(folder="/p/a/"),
    Only(folder="/p"),
    Only(folder="/p/a/1"),
    Only(folder="/q"),
    Only(folder="/nowhere"),
    Only(after=date(2023, 5, 3)),
    Only(before=date(2023, 5, 3)),
    Only(after=date(2023, 5, 1), before=date(2023, 5, 31), shape="portrait"),
    Only(dated=False),
    Only(dated=True, captioned=False),
    Only(shape="square"),
    Only(used=True),
    Only(used=False, captioned=True, folder="/p/b"),
]


@pytest.mark.parametrize("only", ASKED, ids=str)
def test_conditions_choose_what_a_slow_reading_of_them_does(only, tmp_path):
    rows = made_up(2000)
    catalogue = catalogue_of(tmp_path, rows, pieces=3)
    used = {f"{number:064x}" for number in range(0, 2000, 13)} | {"f" * 64}
    due = [row["id"] for row in sorted(rows, key=lambda row: row["paths"][0]) if fits(row, only, used)]
    total, page = catalogue.page(3, 40, only=only, used=used)
    assert total == len(due)
    assert [one.id for one in page] == due[3:43]
    both = [one for one in due if str(int(one, 16)).startswith("1")]
    words = catalogue.page(0, 2000, "picture 1", only=only, used=used)[1]
    assert [one.id for one in words] == [one for one in both if int(one, 16) % 4]


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_a_list_in_order_of_time_ends_with_what_has_none_and_counts_its_months(order, tmp_path):
    rows, only = made_up(200), Only(folder="/p/a")
    catalogue = catalogue_of(tmp_path, rows, pieces=3)
    total, page = catalogue.page(0, 200, only=only, order=order)
    stamps = [one.taken.isoformat() if one.taken else "" for one in page]
    known = [stamp for stamp in stamps if stamp]
    assert known == sorted(known, reverse=order == "newest")
    assert stamps == known + [""] * (total - len(known))
    assert total == catalogue.page(0, 0, only=only)[0]
    due = Counter(stamp[:7] for stamp in stamps)
    assert list(catalogue.months("", only, frozenset(), order).items()) == list(due.items())


def test_what_there_is_to_choose_from(tmp_path):
    rows = made_up(2000)
    catalogue = catalogue_of(tmp_path, rows, pieces=3)
    told = catalogue.facets({rows[0]["id"], "f" * 64})
    for folder, count in told.folders.items():
        assert catalogue.page(0, 0, only=Only(folder=folder))[0] == count, folder
    assert {"/p", "/p/a", "/p/a/1", "/p/b", "/q"} <= set(told.folders)
    assert "" not in told.folders
    below = catalogue.facets(set(), ["/p/a", "/q/"]).folders
    assert below == {one: count for one, count in told.folders.items() if one.startswith(("/p/a", "/q"))}
    for month, count in told.months.items():
        after = date.fromisoformat(f"{month}-01")
        last = date(after.year + after.month // 12, after.month % 12 + 1, 1).toordinal() - 1
        only = Only(after=after, before=date.fromordinal(last))
        assert catalogue.page(0, 0, only=only)[0] == count
    assert sum(told.months.values()) + told.undated == 2000
    assert catalogue.page(0, 0, only=Only(dated=False))[0] == told.undated
    assert sum(told.shapes.values()) == 2000
    assert (told.used, told.uncaptioned) == (1, 500)
    empty = catalogue_of(tmp_path / "empty", []).facets(set())
    assert (empty.folders, empty.months, empty.undated) == ({}, {}, 0)


def test_folders_of_a_source_are_not_those_whose_names_begin_with_its_own(tmp_path):
    rows = made_up(3)
    for row, folder in zip(rows, ("/home/pics", "/home/pics/old", "/home/pics2"), strict=True):
        row["paths"] = [f"{folder}/a.jpg"]
    catalogue = catalogue_of(tmp_path, rows, pieces=3)
    assert catalogue.facets(set(), ["/home/pics"]).folders == {"/home/pics": 2, "/home/pics/old": 1}
    assert catalogue.facets(set(), ["/home/pics2"]).folders == {"/home/pics2": 1}
    assert catalogue.page(0, 0, only=Only(folder="/home/pics"))[0] == 2


def test_pictures_of_one_day_in_the_order_of_time(tmp_path):
    rows = [
        {**row, "taken": taken, "paths": [f"/p/{number}.jpg"]}
        for number, (row, taken) in enumerate(
            zip(
                made_up(4),
                (
                    "2023-07-14T12:00:00",
                    "2023-07-14T09:30:00+02:00",
                    "2023-07-15T09:00:00",
                    "2023-07-14T13:00:00",
                ),
                strict=True,
            )
        )
    ]
    ids = [row["id"] for row in rows]
    catalogue = catalogue_of(tmp_path, rows)
    assert [one.id for one in catalogue.same_occasion(ids[0])] == [ids[1], ids[0], ids[3]]
    assert catalogue.page(0, 9, only=Only(occasion=ids[2]))[0] == 1
    with pytest.raises(DataError, match="no picture"):
        catalogue.same_occasion("f" * 64)
    bare = [{**row, "taken": None} for row in rows[:1]]
    alone = catalogue_of(tmp_path / "bare", bare)
    assert [one.id for one in alone.same_occasion(ids[0])] == [ids[0]]


def test_the_day_comes_from_the_files(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, day in enumerate((14, 14, 15)):
        exif = Image.Exif()
        exif.get_ifd(0x8769)[0x9003] = f"2023:07:{day} 1{number}:00:00"
        Image.effect_noise((64, 48), 40 + 30 * number).save(folder / f"{number}.jpg", exif=exif)
    index([folder], tmp_path / "lib")
    library = PictureStore.open(tmp_path / "lib")
    catalogue = Catalogue.read(library.store, library.home.cache)
    assert catalogue.facets(set()).months == {"2023-07": 3}
    first = library.find("0.jpg").id
    assert [os.path.basename(one.path) for one in catalogue.same_occasion(first)] == ["0.jpg", "1.jpg"]  # noqa: PTH119


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
                "taken_from": "",
                "camera": "",
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


def test_words_are_found_in_any_script(tmp_path):
    """In lower case as Python has it, which a final sigma and a dotted capital I tell from Arrow's."""
    rows = made_up(3)
    for row, text in zip(rows, ("ΟΔΟΣ", "İSTANBUL", string.punctuation), strict=True):
        row["captions"] = [{"text": text, "source": "exif"}]
    catalogue = catalogue_of(tmp_path, rows)
    for row in rows:
        assert catalogue.page(0, 9, row["captions"][0]["text"]) == (1, [picture_of(row)])


@pytest.mark.slow
def test_what_is_held_does_not_grow_with_the_pictures(tmp_path):
    few, many = 2_000, 8_000
    kept = []
    for name, count in (("warm", few), ("few", few), ("many", many)):
        store, cache = stored(tmp_path / name, made_up(count)), tmp_path / name / "cache"
        everything(Catalogue.read(store, cache))  # writes what is kept
        gc.collect()
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        catalogue = Catalogue.read(store, cache)
        everything(catalogue)
        gc.collect()
        kept.append(tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - before)
        tracemalloc.stop()
        assert len(catalogue) == count
    # A list of all would take 8 bytes a picture for the references alone.
    assert kept[2] - kept[1] < 2 * (many - few)


def everything(catalogue):
    """What the studio asks for, once."""
    own = [one.id for one in catalogue.page(5, 7)[1]]
    catalogue.page(0, 3, "picture of 1", only=Only(folder="/p/a"))
    catalogue.pictures(own)
    catalogue.same_occasion(own[0])
    catalogue.facets(own)
    catalogue.duplicates(0, 9)
