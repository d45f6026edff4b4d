"""The reader of illustrated stories: every field survives, every flaw is listed or refused."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from released import picture

from limner.errors import DataError, MissingError
from limner.research.datasets.pairs import Source
from limner.research.datasets.sets.stories import read_stories, read_story_pairs

SHA = "ab" * 32


def write(folder, rows, pictures=()):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / "stories.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name in pictures:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"not opened")
    return folder


def page(text="Words.", image="images/a.jpg", sha256=SHA):
    return {"text": text, "image": image, "sha256": sha256}


def test_a_story_becomes_a_record(tmp_path):
    row = {
        "story_id": "7", "title": "Ụmụ", "license": "CC-BY", "author": "A", "illustrator": "I",
        "split": "val", "cover": "images/c.jpg",
        "pages": [page(" One. "), page("שלום", "b", "cd" * 32)],
    }  # fmt: skip
    found = read_stories(write(tmp_path, [row], ["images/a.jpg", "b", "images/c.jpg"]))
    story = found.split("val")[0]
    assert (story.id, story.title, story.author, story.illustrator) == ("7", "Ụmụ", "A", "I")
    assert (story.license, story.by) == ("CC-BY", "step")
    assert [step.text for step in story.steps] == ["One.", "שלום"]
    ref = story.steps[0].pictures[0]
    assert (ref.target, ref.path, ref.sha256) == ("images/a.jpg", str(tmp_path / "images/a.jpg"), SHA)
    assert found.wordless == ()


def test_the_form_without_split_keeps_its_source(tmp_path):
    row = {"story_id": "x", "source": "o/r", "license": "MIT", "pages": [page()]}
    found = read_stories(write(tmp_path, [row], ["images/a.jpg"]))
    assert found.stories[0].source == "o/r"
    with pytest.raises(DataError, match="no story has split 'test', found \\(none\\)"):
        found.split("test")


def test_missing_pictures_and_wordless_pages_are_listed_not_filled(tmp_path):
    rows = [
        {
            "story_id": "1",
            "cover": "images/no.jpg",
            "pages": [page(), page(" \t "), page("T", "images/no.jpg")],
        },
        {"story_id": "2", "pages": [page("")]},
        {"story_id": "3", "pages": []},
    ]
    found = read_stories(write(tmp_path, rows, ["images/a.jpg"]))
    assert found.wordless == ("1/2", "2/1")
    assert [len(story.steps) for story in found.stories] == [2]
    assert found.stories[0].steps[1].pictures[0].path is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{broken", "stories.jsonl:1: not JSON"),
        ("[1]", "stories.jsonl:1: the line"),
        ({"story_id": "1"}, "pages"),
        ({"story_id": "", "pages": []}, "story_id"),
        ({"story_id": "1", "pages": [], "titel": "x"}, "titel"),
        ({"story_id": "1", "pages": [], "split": "dev"}, "split"),
        ({"story_id": "1", "pages": [page(sha256="xyz")]}, "pages.0.sha256"),
        ({"story_id": "1", "pages": [page(image="../a.jpg")]}, "outside the folder"),
        ({"story_id": "1", "pages": [page(image="/etc/passwd")]}, "outside the folder"),
        ({"story_id": "1", "pages": [page(image="a\0.jpg")]}, "outside the folder"),
    ],
)
def test_a_wrong_line_is_one_clear_error(tmp_path, row, message):
    with pytest.raises(DataError, match=message) as caught:
        read_stories(write(tmp_path, [row]))
    assert "\n" not in str(caught.value)


def test_ids_must_differ_and_the_file_must_be_there(tmp_path):
    with pytest.raises(DataError, match=r"stories.jsonl:3: story_id '1' occurs twice"):
        read_stories(
            write(tmp_path / "twice", [{"story_id": "1", "pages": []}, "", {"story_id": "1", "pages": []}])
        )
    with pytest.raises(MissingError, match="does not exist"):
        read_stories(tmp_path / "nowhere")
    (tmp_path / "stories.jsonl").write_bytes(b'{"story_id": "\xff"}')
    with pytest.raises(DataError, match="byte 14 is not UTF-8"):
        read_stories(tmp_path)


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
pages = st.fixed_dictionaries(
    {"text": words, "image": st.sampled_from(["images/a.jpg", "b.jpg"]), "sha256": st.just(SHA)}
)
rows = st.lists(
    st.fixed_dictionaries(
        {"pages": st.lists(pages, max_size=3)},
        optional={"title": words, "author": words, "license": words, "source": words,
                  "split": st.sampled_from(["train", "val", "test"])},
    ),
    max_size=4,
)  # fmt: skip


@given(rows)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_lost_or_invented(tmp_path, stories):
    for number, story in enumerate(stories):
        story["story_id"] = str(number)
    found = read_stories(write(tmp_path, stories, ["images/a.jpg"]))
    pages = [(s["story_id"], p) for s in stories for p in s["pages"]]
    with_words = [(key, p["text"].strip()) for key, p in pages if p["text"].strip()]
    assert [(s.id, step.text) for s in found.stories for step in s.steps] == with_words
    assert len(found.wordless) == len(pages) - len(with_words)
    paths = [step.pictures[0].path for s in found.stories for step in s.steps]
    assert paths.count(None) == sum(p["image"] == "b.jpg" for _, p in pages if p["text"].strip())
    for story in found.stories:
        stated = stories[int(story.id)]
        for key in ("title", "author", "license", "source", "split"):
            assert getattr(story, key) == stated.get(key, "")


@pytest.mark.shared
def test_the_storybook_set(shared_data):
    found = read_stories(shared_data / "storybook")
    assert [len(found.split(name)) for name in ("train", "val", "test")] == [190, 30, 60]
    assert found.wordless == ()
    test = [ref for story in found.split("test") for step in story.steps for ref in step.pictures]
    assert (len(test), len({ref.sha256 for ref in test})) == (627, 608)


def test_relations_of_pages_are_labels_and_only_all_pages_may_state_them(tmp_path):
    stated = {"action": True, "story": False}
    rows = [
        {"story_id": "1", "pages": [page(" ") | {"relations": {"action": False, "story": True}},
                                    page("One.") | {"relations": stated}]},
        {"story_id": "2", "pages": [page("Two.") | {"relations": {"action": False, "story": True}}]},
    ]  # fmt: skip
    picture(tmp_path / "images" / "a.jpg", 1)
    data = read_story_pairs(Source(write(tmp_path, rows)))
    assert data.relations == ("action", "story")
    assert [dict(pair.labels) for pair in data.pairs] == [
        {"action": 1, "story": 0},
        {"action": 0, "story": 1},
    ]
    rows[1]["pages"][0]["relations"] = {"action": True}
    with pytest.raises(DataError, match="a page of '2' does not state the relation 'story'"):
        read_story_pairs(Source(write(tmp_path, rows)))
