"""A list of pictures by folder, day, shape, use, words and day."""

import hashlib
import os
from datetime import date

import pytest
from made_up_pictures import catalogue_of
from PIL import Image

from limner.errors import DataError
from limner.store.browse import Catalogue, Only
from limner.store.ingest import index
from limner.store.library import Library

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
    library = Library.open(tmp_path / "lib")
    catalogue = Catalogue.read(library.store, library.home.cache)
    assert catalogue.facets(set()).months == {"2023-07": 3}
    first = library.find("0.jpg").id
    assert [os.path.basename(one.path) for one in catalogue.same_occasion(first)] == ["0.jpg", "1.jpg"]  # noqa: PTH119
