"""Study records and their folder: what was registered is what is read, or one clear error."""

import hashlib
import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from limner.errors import DataError, MissingError
from limner.research.study.records import (
    ITEMS,
    KEY,
    PICTURES,
    POPULATION,
    STUDY,
    Item,
    Key,
    KeyEntry,
    Population,
    RatedPicture,
    SampleDraw,
    Vote,
    check_votes,
    fingerprint,
    read_study,
    read_votes,
    vote_lines,
    write_study,
)

# SHA-256 of b"one" and b"two"
ONE = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
TWO = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"
TIME = datetime(2026, 5, 1, 12, tzinfo=UTC)


def an_item(name="i1", **values):
    candidates = (
        RatedPicture(id="first", picture=f"{ONE}.png"),
        RatedPicture(id="second", picture=f"{TWO}.png"),
    )
    return Item(**{"id": name, "text": "a text\u2028of two lines", "candidates": candidates, **values})


@pytest.fixture
def folder(tmp_path):
    """A written study."""
    items = (an_item(), an_item("i2"))
    entry = KeyEntry(systems={"first": ("A",), "second": ("B",)})
    key = Key(systems={"all": {"A": "ours", "B": "theirs"}}, items={"i1": entry, "i2": entry})
    population = Population(seed=0, strata={"all": SampleDraw(population=("t1", "t2"), drawn=("t2", "t1"))})
    write_study(
        tmp_path,
        {
            "protocol": "pairwise",
            "title": "Größe",
            "question": "Which?",
            "consent": "Agree?",
            "systems": ("A", "B"),
            "items": 2,
            "sample": {"seed": 0, "strata": {"all": {"population": 2, "drawn": 2}}},
            "created": TIME,
        },
        items,
        key,
        population,
    )
    (tmp_path / PICTURES).mkdir()
    (tmp_path / PICTURES / f"{ONE}.png").write_bytes(b"one")
    (tmp_path / PICTURES / f"{TWO}.png").write_bytes(b"two")
    return tmp_path


def test_a_study_reads_back(folder):
    found = read_study(folder)
    assert [item.id for item in found.items] == ["i1", "i2"]
    assert found.items[0].text == "a text\u2028of two lines"
    assert found.study.sha256 == fingerprint(found.study)
    assert found.key.items["i1"].systems == {"first": ("A",), "second": ("B",)}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (STUDY, b'"raters_per_item": 3', b'"raters_per_item": 5'),
        (STUDY, '"title": "Größe"'.encode(), b'"title": "Other"'),
        (STUDY, b'"level": 0.05', b'"level": 0.10'),
        (STUDY, b'"seed": 0', b'"seed": 1'),
        (ITEMS, b'"id":"i2"', b'"id":"i3"'),
        (ITEMS, b"a text", b"a Text"),
        (KEY, b'"A"', b'"C"'),
        (KEY, b"ours", b"ourz"),
        (POPULATION, b'"t2"', b'"t3"'),
        (f"{PICTURES}/{ONE}.png", b"one", b"two"),
    ],
)
def test_any_altered_file_is_one_clear_error(folder, name, old, new):
    path = folder / name
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    with pytest.raises(DataError, match="altered after the study was registered") as caught:
        read_study(folder)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_items_cannot_be_changed_together_with_their_hash(folder):
    items = folder / ITEMS
    items.write_bytes(items.read_bytes().replace(b"a text", b"A text"))
    study = json.loads((folder / STUDY).read_text("utf-8"))
    study["items_sha256"] = hashlib.sha256(items.read_bytes()).hexdigest()
    (folder / STUDY).write_text(json.dumps(study), encoding="utf-8")
    with pytest.raises(DataError, match=r"study\.json: altered"):
        read_study(folder)


def test_a_study_of_an_earlier_version_has_the_same_hash(folder):
    """Fields that came later are left out where they are absent, of the file and of the hash."""
    found = read_study(folder).study
    earlier = found.model_dump(mode="json", exclude={"sha256", "notice"})
    text = json.dumps(earlier, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == found.sha256
    assert set(json.loads((folder / STUDY).read_text("utf-8"))) == earlier.keys() | {"sha256"}


def test_white_space_in_the_registration_is_no_alteration(folder):
    path = folder / STUDY
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")), indent=3), encoding="utf-8")
    assert read_study(folder).study.title == "Größe"


@pytest.mark.parametrize("name", [STUDY, ITEMS, KEY, POPULATION, f"{PICTURES}/{TWO}.png"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(MissingError, match=re.escape(name.rsplit("/", 1)[-1])):
        read_study(folder)


def test_pictures_are_left_alone_where_nobody_asks(folder):
    (folder / PICTURES / f"{ONE}.png").unlink()
    assert read_study(folder, pictures=False).study.items == 2


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"format": "limner-study-9"}', b"null"]
)
def test_a_file_that_is_no_registration_is_one_line(folder, content):
    (folder / STUDY).write_bytes(content)
    with pytest.raises(DataError, match=re.escape(STUDY)) as caught:
        read_study(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", f"{ONE}/x.png", f"{ONE}", f"{ONE[:-1]}.png", f"{ONE}.p/g"]
)
def test_no_picture_name_leaves_the_folder(name):
    with pytest.raises(ValidationError):
        RatedPicture(id="a", picture=name)


@pytest.mark.parametrize(
    "values",
    [
        {"candidates": (RatedPicture(id="a", picture=f"{ONE}.png"),) * 2},
        {"prefilled": "same"},
        {"context": ("one",), "position": 1},
        {"text": ""},
        {"id": "no spaces"},
    ],
)
def test_items_that_cannot_be_are_refused(values):
    with pytest.raises(ValidationError):
        an_item(**values)


answers = st.one_of(
    st.sampled_from(["first", "second", "same", "neither"]),
    st.lists(st.sampled_from("abc"), max_size=3).map(tuple),
)


@given(st.lists(st.tuples(st.text(min_size=1, max_size=20), answers, st.floats(0, 1e6)), max_size=8))
def test_votes_read_back_from_their_lines(tmp_path_factory, rows):
    cast = [Vote(item="i1", rater=r, answer=a, seconds=s, time=TIME) for r, a, s in rows]
    file = tmp_path_factory.mktemp("votes") / "votes.jsonl"
    file.write_text(vote_lines(cast), encoding="utf-8", newline="\n")
    assert read_votes(file) == cast


@given(st.binary(max_size=200))
def test_any_bytes_are_votes_or_one_line(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("votes") / "votes.jsonl"
    file.write_bytes(content)
    found = ""
    try:
        read_votes(file)
    except DataError as error:
        found = str(error)
    assert "\n" not in found


def test_votes_without_a_zone_or_with_endless_seconds_are_refused():
    for values in ({"time": datetime(2026, 1, 1)}, {"seconds": float("inf")}, {"seconds": -1}):
        with pytest.raises(ValidationError):
            Vote(**{"item": "i1", "rater": "r", "answer": "same", "seconds": 1.0, "time": TIME, **values})


@pytest.mark.parametrize(
    ("protocol", "answer", "order", "fine"),
    [
        ("pairwise", "first", ("second", "first"), True),
        ("pairwise", "neither", (), True),
        ("pairwise", "first", ("first",), False),
        ("pairwise", ("first",), (), False),
        ("tick-all", ("first", "second"), (), True),
        ("tick-all", (), ("first", "second"), True),
        ("tick-all", ("second", "first"), (), False),
        ("tick-all", ("first", "first"), (), False),
        ("tick-all", ("third",), (), False),
        ("tick-all", "first", (), False),
    ],
)
def test_answers_that_an_item_allows(protocol, answer, order, fine):
    vote = Vote(item="i1", rater="r", answer=answer, shown_order=order, seconds=1, time=TIME)
    if fine:
        check_votes([vote], [an_item()], protocol)
    else:
        with pytest.raises(DataError, match="'i1'"):
            check_votes([vote], [an_item()], protocol)
