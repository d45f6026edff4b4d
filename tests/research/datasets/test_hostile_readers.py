"""Readers of JSON and HTML end hostile files in one clear line, or list what they left out; nothing else."""

import copy
import json
import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

import limner
from limner.errors import DataError, LimnerError, MissingError
from limner.pictures.tables import list_rows
from limner.research.datasets.folders import read_table
from limner.research.datasets.pairs import Source
from limner.research.datasets.recipes.builder import build_recipes, find_sources
from limner.research.datasets.recipes.saved_pages import read_page
from limner.research.datasets.sets.captions import read_captions
from limner.research.datasets.sets.clue import wanted
from limner.research.datasets.sets.coco import read_coco
from limner.research.datasets.sets.folder import read_captioned_folder
from limner.research.datasets.sets.goodnews import read_goodnews
from limner.research.datasets.sets.pairs import read_pairs
from limner.research.datasets.sets.politics import read_politics
from limner.research.datasets.sets.recipeqa import read_recipeqa
from limner.research.datasets.sets.stories import read_stories
from limner.research.datasets.sets.vist import read_vist
from limner.text.markup import read_html
from limner.text.picture_files import finder

DEEP = 100_000
LONG = "stir well " * 1_050_000  # of 10 MB
NEWS = "The senate met today. " * 40


def texts_alone(read):
    return lambda file: read(Source(file))


def sentence(place):
    return {"story_id": "1", "worker_arranged_photo_order": place, "text": "A dog.", "photo_flickr_id": "p"}


RECIPE = [
    {"body": "Mix the flour with the sugar in a large bowl.", "images": ["a.jpg"]},
    {"body": "Bake the bread in the hot oven for an hour.", "images": ["b.jpg"]},
]
# reader → name of its file, how to call it, a good value of the whole file or line
READERS = {
    "stories": (
        "stories.jsonl",
        lambda file: read_stories(file.parent),
        {"story_id": "1", "cover": "c.jpg", "pages": [{"text": "A dog.", "image": "a.jpg"}]},
    ),
    "captions": (
        "captions.jsonl",
        lambda file: read_captions(file.parent),
        {"file_name": "a.jpg", "captions": ["A dog.", "Two."]},
    ),
    "vist": ("v.json", texts_alone(read_vist), {"annotations": [[sentence(place)] for place in range(5)]}),
    "recipeqa": (
        "r.json",
        texts_alone(read_recipeqa),
        {"data": [{"recipe_id": "leeks", "context": RECIPE}]},
    ),
    "coco": (
        "captions_train2014.json",
        texts_alone(read_coco),
        {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"image_id": 1, "caption": "A dog."}]},
    ),
    "karpathy": (
        "k.json",
        texts_alone(read_coco),
        {"images": [{"filename": "a.jpg", "split": "val", "cocoid": 1, "sentences": [{"raw": "A dog."}]}]},
    ),
    "goodnews": (
        "g.json",
        texts_alone(read_goodnews),
        {"n1": {"images": {"0": "A dog."}, "headline": {"main": "Dogs"}, "article_url": "u"}},
    ),
    "politics": (
        "p.json",
        texts_alone(read_politics),
        {"left": {"taxes": [{"local_path": "a.jpg", "content_text": NEWS}]}},
    ),
    "politics lines": (
        "p.jsonl",
        texts_alone(read_politics),
        {"politics": "left", "issue": "taxes", "local_path": "a.jpg", "content_text": NEWS},
    ),
    "clue's map": ("img2idxmap.json", wanted, {"u": 1}),
    "text": (
        "s.json",
        limner.read,
        {"title": "Dogs", "steps": ["A dog.", {"text": "Two.", "image": "a.jpg"}]},
    ),
}
every_reader = pytest.mark.parametrize("name", READERS)


def attempt(read, *given, named=""):
    """What is read, or None where it is refused in one line that can be read and names the place."""
    try:
        return read(*given)
    except LimnerError as error:
        said = str(error)
    assert "\n" not in said
    assert 10 < len(said) < 700
    assert named in said
    return None


def reading(name, folder, data):
    """What a reader makes of bytes, None where it refuses them."""
    file, read, _ = READERS[name]
    (folder / file).write_bytes(data)
    return attempt(read, folder / file, named=file.split(".")[0])


def good(name):
    return json.dumps(READERS[name][2])


@pytest.mark.parametrize(("name", "key"), [("coco", "file_name"), ("karpathy", "filename")])
def test_a_picture_without_a_name_is_refused(tmp_path, name, key):
    nameless = good(name).replace(f'"{key}": "a.jpg"', f'"{key}": ""')
    assert reading(name, tmp_path, nameless.encode()) is None


def test_the_good_file_is_read(tmp_path):
    for name in READERS:
        assert reading(name, tmp_path, good(name).encode()) is not None, name


NO_SUCH_FILE = (
    *(b"[" * DEEP, b'{"a":' * DEEP, b"[" * DEEP + b"]" * DEEP, b"{" + b" " * 1000),
    *(b"\0", b"NaN", b"-Infinity", b"7", b'"words"', b"null", b"\xff\xfe{}"),
)


@every_reader
def test_what_is_no_such_file_is_refused(name, tmp_path):
    for data in NO_SUCH_FILE:
        assert reading(name, tmp_path, data) is None, data[:20]


def test_broken_encodings_and_ends_of_good_files_are_refused(tmp_path):
    for name in READERS:
        whole = good(name).encode()
        for wrong in (whole[:-1], b"\0" + whole, whole[:-2] + b"\xff" + whole[-2:]):
            assert reading(name, tmp_path, wrong) is None, (name, wrong)
        reading(name, tmp_path, b"\xef\xbb\xbf" + whole)  # a mark of the encoding harms nobody who reads it


@pytest.mark.slow
def test_one_line_of_a_megabyte_is_read_or_refused(tmp_path):
    long = LONG[:1_000_000]
    for name in READERS:
        for wrong in (f'"{long}"', long):
            assert reading(name, tmp_path, wrong.encode()) is None, name
        reading(name, tmp_path, good(name).replace("A dog.", long).encode())


def places(value, path=()):
    """Paths to every part of a JSON value, itself first."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def replaced(value, path, by):
    """A copy with one part put in another's place."""
    if not path:
        return by
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = by
    return changed


@pytest.mark.slow
@every_reader
def test_deep_or_impossible_values_anywhere_are_read_or_refused(name, tmp_path):
    value = READERS[name][2]
    for path in places(value):
        marked = json.dumps(replaced(value, path, "@@"))
        for other in (
            "[" * DEEP + "]" * DEEP,
            "NaN",
            "Infinity",
            "1e999",
            "9" * 5000,
            '"\\ud800"',
            '"\\u0000"',
        ):
            reading(name, tmp_path, marked.replace('"@@"', other).encode())


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["..", "/etc/passwd", "a" * 5000, "~nobody/a.jpg", "file:///etc", "", "\0", "\u2028"])
)
any_value = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@every_reader
@settings(max_examples=15)
@given(data=st.data())
def test_parts_of_other_types_missing_or_twice_are_read_or_refused(name, tmp_path_factory, data):
    value = READERS[name][2]
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(value))))
        kind = data.draw(st.sampled_from(["replace", "remove", "twice"]))
        if kind == "replace" or not path:
            value = replaced(value, path, data.draw(any_value))
            continue
        owner = value
        for key in path[:-1]:
            owner = owner[key]
        owner = copy.deepcopy(owner)
        if kind == "remove":
            del owner[path[-1]]
        elif isinstance(owner, list):
            owner.append(owner[path[-1]])
        else:
            owner[f"{path[-1]} again"] = owner[path[-1]]
        value = replaced(value, path[:-1], owner)
    folder = tmp_path_factory.mktemp("mutated")
    reading(name, folder, json.dumps(value).encode())


@pytest.mark.slow
@every_reader
@settings(max_examples=15)
@given(data=st.data())
def test_bytes_changed_anywhere_are_read_or_refused(name, tmp_path_factory, data):
    whole = bytearray(good(name).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, max(0, len(whole) - 1)))  # changes may have emptied it
        whole[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    reading(name, tmp_path_factory.mktemp("bytes"), bytes(whole))


def test_a_folder_or_links_in_a_circle_in_place_of_the_file(tmp_path):
    for file, read, _ in READERS.values():
        (tmp_path / "circle").mkdir(exist_ok=True)
        (tmp_path / "circle" / file).symlink_to(tmp_path / "circle" / file)
        (tmp_path / "folder" / file).mkdir(parents=True)
        for folder in ("circle", "folder"):
            with pytest.raises(LimnerError) as told:
                read(tmp_path / folder / file)
            assert "\n" not in str(told.value)


@pytest.mark.parametrize("read", [read_stories, read_captions])
def test_a_folder_that_is_a_circle_of_links_is_refused(read, tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for folder in (tmp_path / "a", "a\0b", "x" * 5000):
        with pytest.raises(LimnerError) as told:
            read(folder)
        assert "\n" not in str(told.value)


def test_pictures_that_no_file_can_be_are_listed(tmp_path):
    (tmp_path / "self.jpg").symlink_to(tmp_path / "self.jpg")
    names = ["self.jpg", "n" * 5000, "stories.jsonl/x"]
    pages = [{"text": "Words.", "image": name} for name in names]
    (tmp_path / "stories.jsonl").write_text(json.dumps({"story_id": "1", "pages": pages}))
    (story,) = read_stories(tmp_path).stories
    assert [step.pictures[0].path for step in story.steps] == [None] * len(names)
    lines = [json.dumps({"file_name": name, "captions": ["Words."]}) for name in names]
    (tmp_path / "captions.jsonl").write_text("\n".join(lines))
    assert [picture.path for picture in read_captions(tmp_path)] == [None] * len(names)


def test_stories_that_name_each_other_are_refused_by_the_key(tmp_path):
    rows = [{"story_id": a, "pages": [{"text": "x", "image": "a.jpg", "story": b}]} for a, b in ("12", "21")]
    (tmp_path / "stories.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match=r"stories\.jsonl:1: pages\.0\.story: Extra inputs"):
        read_stories(tmp_path)


def test_what_each_refusal_says(tmp_path):
    file = tmp_path / "stories.jsonl"
    file.write_bytes(b"\n" + b"[" * DEEP)
    with pytest.raises(DataError, match=r"stories\.jsonl:2: not JSON \(recursion limit exceeded.*one story"):
        read_stories(tmp_path)
    file.write_bytes(b"\xef\xbb\xbf{}")
    with pytest.raises(DataError, match=r"stories\.jsonl:1: not JSON"):
        read_stories(tmp_path)
    deep = tmp_path / "g.json"
    deep.write_text('{"n1": {"images": {"0": ' + "[" * DEEP)
    with pytest.raises(DataError, match=r"g\.json: nested deeper than 50"):
        read_goodnews(Source(deep))
    (tmp_path / "p.jsonl").write_text("[" * DEEP)
    with pytest.raises(DataError, match=r"p\.jsonl:1: not JSON \(recursion limit"):
        read_politics(Source(tmp_path / "p.jsonl"))


STEPS = "<ol><li>Mix it well<img src=a.jpg><li>Bake it now<img src=b.jpg></ol>"


def declared(instructions, **more):
    thing = {"@type": "Recipe", "name": "Bread", "recipeInstructions": instructions, **more}
    return f'<script type="application/ld+json">{json.dumps(thing)}</script>{STEPS}'


def steps_of(page):
    return read_html(page, "a.html", finder(None)).declared


def test_declared_nodes_that_refer_to_each_other_end():
    one = {"@type": "HowToSection", "@id": "#a", "itemListElement": [{"@id": "#b"}, "Mix it.", {"@id": "#a"}]}
    other = {"@type": "HowToSection", "@id": "#b", "itemListElement": [{"@id": "#a"}, "Bake it."]}
    page = declared([one, other], author={"@id": "#a", "author": {"@id": "#b"}}, mainEntity={"@id": "#a"})
    assert [step.text for step in steps_of(page)] == ["Mix it.", "Bake it."]


def test_halves_of_characters_in_declared_steps_become_question_marks():
    steps = ["Mix \ud800 it.", {"text": "Bake\0 it.", "name": "\udfff", "image": "\ud800.jpg"}]
    document = read_html(declared(steps, name="\ud800", author={"name": "\udfff"}), "a.html", finder(None))
    assert [(step.title, step.text) for step in document.declared] == [("", "Mix ? it."), ("?", "Bake it.")]
    assert document.declared[1].pictures[0].target == "?.jpg"
    assert (document.title, document.author) == ("?", "?")


ROUND = (
    '<meta http-equiv=refresh content="0;url=a.html"><link rel=canonical href=a.html><base href=a.html>'
    "<a href=a.html>again</a><iframe src=a.html></iframe><frame src=a.html>"
)


def test_a_page_that_leads_to_itself_is_read_once_or_has_no_words():
    page = read_page(f"{ROUND}{STEPS}".encode(), "a.html", None)
    assert [piece.text for piece in page.pieces] == ["Mix it well", "Bake it now"]
    with pytest.raises(DataError, match="no words"):
        read_page(b'<meta http-equiv=refresh content="0;url=a.html">', "a.html", None)


@pytest.mark.parametrize(
    "script",
    [
        "[" * DEEP,
        '{"@graph":' * DEEP + "1" + "}" * DEEP,
        '{"@graph": NaN, "name": ' + "9" * 5000 + "}",
    ],
    ids=["brackets", "graphs", "numbers"],
)
def test_hostile_declarations_leave_the_page_as_if_it_had_none(script):
    html = f'<script type="application/ld+json">{script}</script>{STEPS}'
    page = read_page(html.encode(), "a.html", None)
    assert [piece.text for piece in page.pieces] == ["Mix it well", "Bake it now"]


VAST = {
    "name": lambda: f"<div class='{LONG}'>x</div>{STEPS}",
    "script": lambda: f"<script>{LONG}",
    "comment": lambda: f"<!-- {LONG}",
    "words": lambda: LONG,
    "less": lambda: "<" * 100_000,
    "entities": lambda: "&amp;" * 60_000,
    "opened": lambda: "<!--" * 50_000,
    "attributes": lambda: "<p " + "a=b " * 100_000 + ">words",
    "tables": lambda: "<table>" * 5000 + "words",
    "nul": lambda: "\ufeff" + "\0".join(STEPS),
    "step": lambda: declared([LONG[:1_000_000], "Bake it."]),
}


@pytest.mark.slow
@pytest.mark.parametrize("piece", VAST)
def test_pages_of_one_vast_piece_are_read_or_refused(piece):
    html = VAST[piece]().encode()
    for where in ("a.html", "a.md"):
        attempt(read_page, html, where, None, named=where)


JSON_LD = st.recursive(
    st.sampled_from(["Mix it.", "", "#a", "\ud800", 3, None, True, "<p>Bake", "&#0;"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["@id", "@type", "@graph", "text", "name", "item", "itemListElement", "image"]),
            inner | st.sampled_from(["HowToSection", "HowToStep", "ListItem", "Recipe"]),
            max_size=4,
        )
    ),
    max_leaves=15,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@example([{"itemListElement": [""]}])
@example([{"name": "Mix it.", "itemListElement": [""]}])
@given(st.lists(JSON_LD, max_size=4))
def test_any_declaration_is_read_without_a_crash(values):
    said = [step.text for step in steps_of(declared(["One.", *values, "Two."]))]
    assert (said[0], said[-1]) == ("One.", "Two.")


def test_links_in_a_circle_do_not_hold_up_a_build(tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "again").symlink_to(pages)
    (pages / "self.html").symlink_to(pages / "self.html")
    (pages / "gone.html").symlink_to(pages / "nowhere.html")
    (pages / "a.html").write_text(ROUND + STEPS)
    assert [source.name for source in find_sources([str(pages)])] == ["a.html", "gone.html", "self.html"]
    with pytest.raises(DataError, match="no recipe left of 3 pages"):
        build_recipes([str(pages)], tmp_path / "set")
    lines = (tmp_path / "set" / "dropped.jsonl").read_text().splitlines()
    reasons = {row["page"]: row["detail"] for row in map(json.loads, lines) if "detail" in row}
    assert set(reasons) == {"gone.html", "self.html"}
    assert "symbolic links" in reasons["self.html"]
    with pytest.raises(MissingError, match="does not exist"):
        find_sources([str(pages / "self.html")])
    with pytest.raises(MissingError, match="does not exist"):
        find_sources(["~nobody-of-this-name/pages"])


def test_hostile_lines_of_a_table_of_pictures_are_named_and_the_rest_is_read(tmp_path):
    values = ["[" * DEEP + "]" * DEEP, "[" * 960 + "]" * 960, "NaN", "9" * 5000, '"\\ud800"', "7"]
    lines = [f'{{"file_name": "a.png", "text": {value}}}' for value in values]
    lines += [f'{{"file_name": {value}, "text": "A dog."}}' for value in values]
    lines += ["[" * DEEP, "\0", '{"file_name": "b.png", "text": "A cat."}']
    table = tmp_path / "metadata.jsonl"
    table.write_text("\n".join(lines))
    rows = list(list_rows(os.fsencode(table)))
    assert len(rows) == len(lines)
    said = {number: row for number, row in enumerate(rows, 1) if isinstance(row, str)}
    assert all(f"line {number}: " in row and "\n" not in row for number, row in said.items())
    assert {1, 4, 7, 8, 9, 10, 11, 12, 13, 14} <= set(said)
    assert "not JSON (maximum recursion" in said[1]
    assert "file_name is not a path" in said[11]
    assert rows[-1].path == os.fsencode(tmp_path / "b.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "b.png")
    with pytest.raises(DataError, match="line 1: not JSON") as told:
        read_captioned_folder(Source(tmp_path))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("read", [read_pairs, lambda file: list(read_table(file, ",", ["text"]))])
def test_a_folder_or_a_circle_of_links_in_place_of_a_file_is_refused_in_one_line(tmp_path, read):
    circle = tmp_path / "circle.csv"
    circle.symlink_to(circle)
    for place in (tmp_path, circle):
        with pytest.raises(DataError, match=r"expected (a|the) file") as told:
            read(place)
        assert "\n" not in str(told.value)
