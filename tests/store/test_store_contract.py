"""What every `limner.store.Store` promises, whatever is behind it."""

from datetime import date

import numpy as np
import pytest
from fakes import FakeTexts
from made_up_library import drawn, id_of, made_up_library

from limner.errors import DataError, MissingError
from limner.library import open_store
from limner.store import Described, File, ModelWords, Only, Pixels, SpaceInfo, Store
from limner.store.database import Database, remove_computed
from limner.store.index import encode_captions, sentences_of
from limner.store.search import COSINE, EncodedChannel

COUNT, WIDTH = 300, 24
SHAPES = {"landscape": (40, 30), "portrait": (30, 40), "square": (40, 39)}


def made(number):
    """Every third has a caption, every second a day, every shape; two in a row are alike."""
    width, height = list(SHAPES.values())[number % 3]
    words = ("a fox in the snow", "Ein Boot auf dem Meer", "猫が寝ている", "an İstanbul café")
    return {
        "path": f"/p/{'ab'[number % 2]}/{number % 7}/IMG_{number:04}.jpg",
        "width_px": width,
        "height_px": height,
        "captions": (words[number // 3 % 4],) if number % 3 == 0 else (),
        "taken": f"{2018 + number % 5}-0{1 + number % 9}-1{number % 10}T12:00:00" if number % 2 else None,
    }


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Store:
    """A library of made-up pictures, as every store is filled for this suite."""
    return made_up_library(tmp_path_factory.mktemp("contract") / "lib", COUNT, {"base": WIDTH}, of=made)


@pytest.fixture
def store(tmp_path) -> Database:
    return made_up_library(tmp_path / "lib", 12, {"base": WIDTH}, of=made)


def numbers(pictures):
    known = {id_of(number): number for number in range(COUNT)}
    return [known[one.id] for one in pictures]


def by_path(some):
    return sorted(some, key=lambda number: made(number)["path"])


def test_records_come_in_the_order_asked_for(filled):
    wanted = [id_of(number) for number in (7, 3, 299)]
    found = filled.pictures(wanted)
    assert [one.id for one in found] == wanted
    assert [one.path for one in found] == [made(number)["path"] for number in (7, 3, 299)]
    assert found[1].captions[0].text == made(3)["captions"][0]
    assert id_of(7) in filled
    assert "f" * 64 not in filled
    with pytest.raises(DataError, match="no picture"):
        filled.pictures(["f" * 64])


@pytest.mark.parametrize("offset", [0, 150, COUNT - 3, COUNT, COUNT + 5])
def test_pages_of_the_list(filled, offset):
    total, page = filled.page(offset, 20)
    assert total == len(filled) == COUNT
    assert numbers(page) == by_path(range(COUNT))[offset : offset + 20]


CONDITIONS = {
    "folder": (Only(folder="/p/a"), lambda n: n % 2 == 0),
    "folder within": (Only(folder="/p/a/4/"), lambda n: n % 2 == 0 and n % 7 == 4),
    "no folder": (Only(folder="/p/a/4x"), lambda n: False),
    "after": (Only(after=date(2020, 3, 1)), lambda n: (made(n)["taken"] or "") >= "2020-03-01"),
    "before": (Only(before=date(2019, 2, 11)), lambda n: "" < (made(n)["taken"] or "")[:10] <= "2019-02-11"),
    "undated": (Only(dated=False), lambda n: n % 2 == 0),
    "square": (Only(shape="square"), lambda n: n % 3 == 2),
    "portrait and dated": (Only(shape="portrait", dated=True), lambda n: n % 3 == 1 and n % 2),
    "captioned": (Only(captioned=True), lambda n: n % 3 == 0),
    "used": (Only(used=True), lambda n: n in (5, 6)),
    "unused": (Only(used=False), lambda n: n not in (5, 6)),
    "occasion": (
        Only(occasion=id_of(5)),
        lambda n: (made(n)["taken"] or "")[:10] == made(5)["taken"][:10],
    ),
    "occasion without a day": (Only(occasion=id_of(4)), lambda n: n == 4),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions(filled, name):
    only, holds = CONDITIONS[name]
    used = {id_of(5), id_of(6)}
    due = [number for number in range(COUNT) if holds(number)]
    assert sorted(filled.passing(only, used)) == sorted(map(id_of, due))
    total, page = filled.page(0, COUNT, only=only, used=used)
    assert (total, numbers(page)) == (len(due), by_path(due))


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_the_order_of_time_and_its_months(filled, order):
    _, page = filled.page(0, COUNT, order=order)
    taken = [(one.taken.isoformat() if one.taken else "") for one in page]
    known = [one for one in taken if one]
    assert known == sorted(known, reverse=order == "newest")
    assert taken[len(known) :] == [""] * (COUNT - len(known))
    months = filled.months("", Only(), (), order)
    assert list(months) == list(dict.fromkeys(one[:7] for one in taken))
    assert sum(months.values()) == COUNT


@pytest.mark.parametrize(
    ("words", "due"),
    [
        ("fox", "a fox in the snow"),
        ("SNOW  fo", "a fox in the snow"),
        ("cafe", "an İstanbul café"),
        ("寝て", "猫が寝ている"),
        ("boot meer", "Ein Boot auf dem Meer"),
        ("fox boot", None),
        ("oot", None),
        ("?!", None),
        ('fox" OR "boot', None),
    ],
)
def test_words_find_captions(filled, words, due):
    total, page = filled.page(0, COUNT, words)
    assert total == sum(due is not None and made(number)["captions"] == (due,) for number in range(COUNT))
    assert {one.captions[0].text for one in page} == ({due} if due else set())


def test_words_find_file_names(filled):
    assert numbers(filled.page(0, 5, "img_0123")[1]) == [123]
    assert filled.page(0, 5, "0123.JPG")[0] == 1


def test_facets_and_counts(filled):
    facets = filled.facets([id_of(1), "f" * 64])
    assert facets.shapes == {"landscape": 100, "portrait": 100, "square": 100}
    assert facets.folders["/p/a"] == 150
    assert len(facets.folders) == 17  # fourteen with pictures, and three with several of these
    assert (facets.undated, facets.used, facets.uncaptioned) == (150, 1, 200)
    assert sum(facets.months.values()) == 150
    counts = filled.counts()
    assert (counts.pictures, counts.files, counts.captioned, counts.skipped) == (300, 300, 100, 0)
    assert filled.vectors() == {"base": 300}


def test_folders_and_their_pictures(filled):
    ids = [id_of(number) for number in (0, 14, 1)]
    first, same, other = filled.folders_of(ids).tolist()
    assert first == same != other
    assert filled.folder_name(first) == "0"
    inside = filled.in_folder(first)
    assert set(inside) == {id_of(number) for number in range(0, COUNT, 14)}
    assert filled.folder_sizes[first] == len(inside)
    assert {one.id for one in filled.under(["/p/a/0", made(1)["path"]])} == {*inside, id_of(1)}


def test_a_picture_is_found_by_its_name_or_id(filled):
    assert filled.find("IMG_0042.jpg").id == filled.find(id_of(42)[:9]).id == id_of(42)
    assert filled.find("a/0/IMG_0042.jpg").id == id_of(42)
    with pytest.raises(DataError, match=r"no picture 'IMG_0942\.jpg'; near: IMG_0"):
        filled.find("IMG_0942.jpg")


def test_the_nearest_by_vector_are_those_of_numpy_and_equal_ones_come_by_number(filled):
    index, rows, texts = filled.index(["base"]), drawn(COUNT, WIDTH), drawn(5, WIDTH, seed=9)
    found = index.search([EncodedChannel("base", "base", COSINE, texts)], 20)
    scores = texts @ rows.T
    due = np.argsort(-scores, axis=1, kind="stable")[:, :20]
    ids = [[index.gallery.ids[row] for row in some] for some in found.rows.tolist()]
    assert ids == [[id_of(number) for number in some] for some in due.tolist()]
    np.testing.assert_allclose(found.scores, np.take_along_axis(scores, due, axis=1), atol=1e-6)
    with pytest.raises(DataError, match="did you mean 'base'"):
        filled.index(["bse"])


def test_vectors_of_some_pictures(filled):
    some = filled.index(["base"]).gallery.of([id_of(9), id_of(2)])
    np.testing.assert_array_equal(some.space("base").matrix, drawn(COUNT, WIDTH)[[9, 2]])
    with pytest.raises(DataError, match="no picture"):
        filled.index([]).gallery.of(["f" * 64])


def test_known_files_and_what_is_not_used(store):
    first, other = store.known([made(0)["path"], "/p/none.jpg"])
    assert (first.sha256, first.size, first.mtime_ns, first.skipped, other) == (id_of(0), 9, 1, "", None)
    store.add([File("/p/x.jpg", skipped="no picture")], {})
    assert [(one.path, one.reason) for one in store.skipped()] == [("/p/x.jpg", "no picture")]
    assert store.known(["/p/x.jpg"])[0].skipped == "no picture"


def test_a_removed_file_hides_its_picture_which_comes_back_without_being_encoded(store):
    before = store.version()
    store.remove([made(3)["path"]])
    assert store.version() > before
    assert (len(store), id_of(3) in store, store.page(0, 99, "boot")[0]) == (11, False, 0)
    assert id_of(3) not in store.index(["base"]).gallery.ids
    assert store.lacking(id_of(3), ["base"]) == []
    pixels = {id_of(3): Pixels(30, 40, "JPEG", "3")}
    store.add([File("/q/new.jpg", 9, 1, sha256=id_of(3))], pixels)
    assert store.pictures([id_of(3)])[0].path == "/q/new.jpg"
    vector = store.index(["base"]).gallery.of([id_of(3)]).space("base").matrix[0]
    np.testing.assert_array_equal(vector, drawn(12, WIDTH)[3])


def test_files_of_one_content_are_one_picture(store):
    store.add([File("/a/copy.jpg", 9, 1, sha256=id_of(3))], {})
    (picture,) = store.pictures([id_of(3)])
    assert picture.paths == ("/a/copy.jpg", made(3)["path"])
    assert store.counts().duplicates == 1
    assert [group for group, _ in store.duplicates(0, 9)] == [id_of(3)]
    store.remove(["/a/copy.jpg"])
    assert store.pictures([id_of(3)])[0].paths == (made(3)["path"],)


def told(store, number):
    return [(one.text, one.source) for one in store.pictures([id_of(number)])[0].captions]


def test_typed_words_replace_those_of_the_files_and_a_models_are_added(store):
    stated = made(0)["captions"][0]
    store.write_descriptions({id_of(0): ModelWords(model="seer", captions=("A fox.",), keywords=("snow",))})
    assert told(store, 0) == [(stated, "exif"), ("A fox.", "model"), ("snow", "model")]
    store.write_words(id_of(0), Described(captions=("Mine",), keywords=("x, y", "x")))
    assert told(store, 0) == [("Mine", "library"), ("x, y", "keywords")]
    words = store.words_of(id_of(0))
    assert (words.edited, words.stated.captions, words.described.model) == (True, (stated,), "seer")
    assert store.page(0, 9, "mine")[0] == 1
    store.write_words(id_of(0), Described())
    assert (told(store, 0), store.words_of(id_of(0)).edited) == ([], True)
    store.write_words(id_of(0), None)
    assert store.remove_descriptions("other") == 0
    assert store.described_by() == {id_of(0): "seer"}
    assert store.remove_descriptions("seer") == 1
    assert told(store, 0) == [(stated, "exif")]
    with pytest.raises(DataError, match="4,001 letters"):
        store.write_words(id_of(0), Described(captions=("x" * 4001,)))


def test_an_edited_caption_has_a_new_vector_and_others_keep_theirs(store):
    texts = FakeTexts()
    made_by = SpaceInfo(encoder="bag", fingerprint="bag-1", dim=32)
    store.save(spaces={**store.settings.spaces, "captions": made_by})
    assert encode_captions(store, sentences_of(texts, None)) == 4
    texts.encoded.clear()
    store.write_words(id_of(0), Described(captions=("a kite",)))
    assert encode_captions(store, sentences_of(texts, None)) == 1
    assert texts.encoded == ["a kite"]
    space = store.index(["captions"]).gallery.of([id_of(0), id_of(1), id_of(3)]).space("captions")
    assert space.present.tolist() == [True, False, True]
    np.testing.assert_allclose(space.matrix[0], texts.encode_text(["a kite"])[0], atol=1e-6)


def test_another_encoder_begins_anew_and_a_new_one_continues(store):
    spaces = store.settings.spaces
    store.save(spaces={"base": spaces["base"].model_copy(update={"fingerprint": "other"})})
    assert store.vectors() == {"base": 0}
    assert store.lagging("picture", ["base"]) == {0: ["base"]}
    rows = dict(enumerate(drawn(12, WIDTH, 4), 1))
    last, some = store.numbered("picture", 0, 5)
    assert (last, list(some)) == (5, [1, 2, 3, 4, 5])
    assert store.fill("picture", 0, 5, {"base": {n: rows[n] for n in some if n != 2}})
    assert not store.fill("picture", 0, 5, {"base": {}})  # somebody else was quicker
    assert store.vectors() == {"base": 4}
    gallery = store.index(["base"]).gallery
    np.testing.assert_array_equal(gallery.of([id_of(4)]).space("base").matrix[0], rows[5])


def test_no_library_is_made_unasked(tmp_path):
    with pytest.raises(MissingError, match="no picture library here"):
        open_store(tmp_path / "none")
    with pytest.raises(MissingError, match=r"needs the extra 'scale'"):
        open_store("nowhere://bucket/lib")
    assert not (tmp_path / "none").exists()


def test_a_library_that_was_made_anew_is_seen_by_who_has_it_open(store):
    assert len(store) == 12
    assert remove_computed(store.folder)[0] == "library.sqlite"
    made_up_library(store.folder, 5)
    assert len(store) == 5
