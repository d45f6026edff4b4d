"""The loop: what was replaced in the studio is handed on with consent, and measures the library."""

import json
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest

from limner.cli.index import index
from limner.cli.main import run
from limner.errors import DataError, MissingError
from limner.research.evaluation.judged import read_qrels, read_topics
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write
from limner.store import Only
from limner.store.database import Database
from limner.studio.preferences import Preference, judgements, read_preferences, write_preferences

pytestmark = pytest.mark.slow

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def preference(query: str, preferred: str, rejected: str | None, minute: int = 0, context=()) -> Preference:
    time = NOON + timedelta(minutes=minute)
    return Preference(
        query=query, context=context, preferred=preferred, rejected=rejected, time=time, library="lib"
    )


@pytest.fixture(scope="module")
def captioned(tmp_path_factory):
    """A library of drawings with captions."""
    folder = tmp_path_factory.mktemp("captioned")
    write(
        folder / "pictures",
        PictureBook(3).stories(1, pages=(6, 6)),
        size_px=64,
        captions="metadata",
        distractors=2,
    )
    with redirect_stdout(StringIO()):
        index(folder / "pictures", library=folder / "lib", encoder=("colour",))
    return folder / "lib"


def test_last_word_counts():
    said = [
        preference("a fox", "b", "a", 0),
        preference("a fox", "c", "b", 1),
        preference("a boat", "d", None, 2),
        preference("a fox", "e", "c", 3, context=("other", "a fox")),
    ]
    topics, judged = judgements(said)
    fox, boat, other = judged
    assert judged[fox] == {"a": 0, "b": 0, "c": 1}
    assert judged[boat] == {"d": 1}
    assert judged[other] == {"c": 0, "e": 1}, "another context is another topic"
    assert topics == {fox: "a fox", boat: "a boat", other: "a fox"}
    assert judgements(said)[1].keys() == judged.keys(), "ids are the same every time"


def test_files(tmp_path):
    said = [preference("a\tfox\nby day", "b", "a"), preference("zebra", "c", None, 1)]
    assert write_preferences(said, tmp_path / "to") == (2, 3)
    topics, judged = read_topics(tmp_path / "to/topics.tsv"), read_qrels(tmp_path / "to/qrels.txt")
    assert topics.keys() == judged.keys()
    assert [*topics.values()] == ["a fox by day", "zebra"]
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == [
        "preferences.jsonl",
        "qrels.txt",
        "topics.tsv",
    ]


def test_nothing_to_hand_on(tmp_path):
    with pytest.raises(MissingError, match="no projects; 'limner studio' creates them there"):
        read_preferences(tmp_path / "none")
    (tmp_path / "projects").mkdir()
    with pytest.raises(DataError, match="no picture was replaced"):
        read_preferences(tmp_path / "projects")


def test_only_with_consent(tmp_path, capsys):
    words = ["study", "preferences", "--library", str(tmp_path), "--to", str(tmp_path / "to")]
    assert run(words) == 2
    assert "add --consent if you agree" in capsys.readouterr().err
    assert not (tmp_path / "to").exists()


def evaluated(captioned, folder, capsys, *words):
    files = ["--qrels", str(folder / "qrels.txt"), "--topics", str(folder / "topics.tsv")]
    status = run(["evaluate", "--library", str(captioned), *files, *words])
    return status, capsys.readouterr()


def test_a_library_is_measured_by_what_was_preferred(captioned, tmp_path, capsys):
    library = Database(captioned)
    gallery = library.index(sorted(library.settings.spaces)).gallery
    pictures = [one for one in library.pictures(gallery.ids) if one.alt]
    said = [
        preference(one.alt, one.id, pictures[n - 1].id, n)
        for n, one in enumerate(pictures)
        if one.alt != pictures[n - 1].alt
    ]
    write_preferences([*said, preference("gone", "f" * 64, None, 99)], tmp_path)
    status, told = evaluated(captioned, tmp_path, capsys, "--json")
    assert status == 0, told.err
    assert (
        "not in this library: 1 judged picture; left out, because no relevant picture is in it: 1 topic"
        in told.err
    )
    found = json.loads(told.out)
    assert found["gallery"] == len(gallery)
    assert found["topics"] == len({one.alt for one in pictures})
    assert found["metrics"]["RR@100"]["value"] > 0.9, "a picture's own caption finds it"
    status, told = evaluated(captioned, tmp_path, capsys)
    assert status == 0
    rows = [line.split("\t") for line in told.out.splitlines()]
    assert rows[0] == ["measure", "%", "from", "to"]
    assert [row[0] for row in rows[1:6]] == ["Success@1", "Success@5", "Success@10", "RR@100", "AP@100"]


def test_the_whole_loop(captioned, tmp_path, capsys):
    """Illustrate in the studio, replace, take one back, export, and measure the library by it."""
    from limner.studio.edits import Choose
    from limner.studio.engine import Engine
    from limner.studio.project_editor import ProjectEditor
    from limner.studio.projects import Projects

    editor = ProjectEditor(Engine(captioned), Projects(tmp_path / "projects"))
    project = editor.create("A fox looks out.\n\nA cake is baked.\n\nA boat sails.", format="plain")
    shown = [step.chosen.picture.id for step in project.board.steps if step.chosen]
    others = [one for one in Database(captioned).passing(Only()) if one not in shown]
    for step, picture in ((0, others[0]), (0, others[1]), (1, others[2])):
        edit = Choose(kind="choose", step=step, picture=picture)
        project = editor.edit(project.id, project.revision, edit)
    editor.undo(project.id, project.revision)

    words = ["study", "preferences", "--library", str(captioned), "--projects", str(tmp_path / "projects")]
    assert run([*words, "--consent", "--to", str(tmp_path / "to")]) == 0
    told = capsys.readouterr().out
    assert told.startswith("2 preferences, 1 topic, ")
    (judged,) = read_qrels(tmp_path / "to/qrels.txt").values()
    assert (judged[others[0]], judged[others[1]]) == (0, 1)
    assert [*read_topics(tmp_path / "to/topics.tsv").values()] == ["A fox looks out."]
    lines = (tmp_path / "to/preferences.jsonl").read_text().splitlines()
    said = [Preference.model_validate_json(line) for line in lines]
    assert [(one.preferred, one.rejected) for one in said] == [
        (others[0], shown[0]),
        (others[1], others[0]),
    ]
    assert said[0].context == ("A fox looks out.", "A cake is baked.", "A boat sails.")
    status, told = evaluated(captioned, tmp_path / "to", capsys, "--json")
    assert status == 0, told.err
    assert json.loads(told.out)["topics"] == 1
