"""``limner data``: figures on stdout, refusals in one line, and a fetch that goes on."""

import csv
import json

import pytest
from test_corpora import SETS, make

from limner.errors import ConfigError, LimnerError, MissingError
from limner.progress import span
from limner.research.cli.data import data
from limner.research.datasets.fetch import LOCK_NAME
from limner.research.datasets.pairs import data_sets
from limner.research.datasets.sets.clue import CSV_NAMES, MAP_NAME


def run(*words):
    data([str(word) for word in words], exit_on_error=False, print_error=False, result_action="return_value")


@pytest.fixture
def clue_folder(tmp_path):
    """A small Clue: every second picture is shared by a train and a test row."""
    header = ["", "index", "caption", "url", "Visible", "Subjective", "Action", "Story", "Meta", "Irrelevant"]
    header += ["Other", "When", "How", "Where", "Comment"]
    for split, name in CSV_NAMES.items():
        with (tmp_path / name).open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(header)
            for row in range(40 if split == "train" else 10):
                index = row if split == "train" else 100 + row
                url = f"http://a/{row if row % 2 else index}"
                lines.writerow([row, index, f"caption {index}", url, 1, *[0] * 9, "False"])
    return tmp_path


def test_the_audit_prints_figures(clue_folder, capsys):
    run("audit", "clue", "--annotations", clue_folder, "--draws", "5")
    shown = capsys.readouterr()
    assert shown.err == ""
    released = next(line for line in shown.out.splitlines() if line.startswith("released"))
    assert released.split()[1:] == ["36", "4", "10", "5", "0", "0", "5", "0", "0"]
    assert "How and Where are swapped" in shown.out
    lines = [line.split() for line in shown.out.splitlines() if " and " in line and line[0] in "gr"]
    found = {(line[0], " ".join(line[1:4])): list(map(int, line[4:])) for line in lines if len(line) == 7}
    parts = ("train and val", "train and test", "val and test")
    assert list(found) == [(kind, both) for kind in ("grouped", "released") for both in parts]
    assert all(found["grouped", both] == [0, 0, 0] for both in parts)
    # as released, five pictures of test rows are seen elsewhere, and no text is long
    assert sum(found["released", both][0] for both in parts[1:]) == 5
    assert all(found["released", both][1] == 0 for both in parts)


@pytest.mark.parametrize("name", SETS)
def test_every_plain_set_of_a_settings_file_is_audited(name, tmp_path, capsys):
    place = make(name, tmp_path)
    run("audit", name, "--annotations", place, "--draws", "5")
    shown = capsys.readouterr().out
    assert "12 rows; distinct as written: 12 texts, 12 images, 12 pairs" in shown
    assert "positive" not in shown
    run("audit", name, "--annotations", place, "--draws", "0", "--json")
    (split,) = json.loads(capsys.readouterr().out)["splits"]
    assert (split["kind"], split["train"] + split["val"] + split["test"]) == ("grouped", 12)
    nothing = {"pictures": 0, "texts": 0, "groups": 0}
    assert split["shared"] == [
        {"parts": list(parts), **nothing} for parts in (("train", "val"), ("train", "test"), ("val", "test"))
    ]


@pytest.mark.slow
def test_drawn_books_are_audited_too_and_every_set_is_covered(capsys):
    own = {"picturebook", "cite", "cite++", "clue", "clue-tsv", "recipeqa", "stepwise", "vist"}
    assert set(data_sets()) == {*SETS, *own}
    run("audit", "picturebook", "--draws", "0", "--json")
    found = json.loads(capsys.readouterr().out)
    assert [split["kind"] for split in found["splits"]] == ["grouped", "released"]
    assert all(both["groups"] == 0 for both in found["splits"][0]["shared"])


def test_the_audit_as_json(clue_folder, capsys):
    run("audit", "clue", "--annotations", clue_folder, "--json", "--split", "released", "--draws", "0")
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 50
    assert [split["kind"] for split in found["splits"]] == ["released"]
    assert found["splits"][0]["leak"]["image"] == 5
    assert found["random"] is None


def test_the_folder_comes_from_the_environment(clue_folder, capsys, monkeypatch):
    monkeypatch.delenv("LIMNER_DATA", raising=False)
    with pytest.raises(ConfigError, match=r"set data\.annotations or \$LIMNER_DATA, or pass --annotations"):
        run("audit", "clue")
    (clue_folder / "data").mkdir()
    (clue_folder / "data" / "clue").symlink_to(clue_folder)
    monkeypatch.setenv("LIMNER_DATA", str(clue_folder))
    run("audit", "clue", "--draws", "0")
    assert "50 rows" in capsys.readouterr().out


def test_unknown_sets_are_named(tmp_path):
    with pytest.raises(ConfigError, match="unknown data set 'clu'; did you mean 'clue'"):
        run("audit", "clu")
    with pytest.raises(ConfigError, match="unknown data set to fetch 'cite'"):
        run("fetch", "cite", "--to", tmp_path)
    with pytest.raises(MissingError, match="img2idxmap"):
        run("fetch", "clue", "--to", tmp_path / "x", "--annotations", tmp_path)


def test_a_fetch_reports_goes_on_and_fails_when_nothing_came(tmp_path, capsys):
    from hostile_server import hostile_server, jpeg

    with hostile_server() as server:
        urls = {server.url("ok/1"): 11, server.url("gone/1"): 12, server.url("html/1"): 13}
        (tmp_path / MAP_NAME).write_text(json.dumps(urls))
        to = tmp_path / "images"
        words = ["fetch", "clue", "--annotations", tmp_path, "--host-pause", "0"]
        with pytest.raises(LimnerError, match="no picture was downloaded"):
            run(*words, "--to", tmp_path / "guarded")
        assert not server.asked
        assert "address refused" in capsys.readouterr().out
        run(*words, "--to", to, "--allow-private")
        shown = capsys.readouterr().out
        assert "1 of 3 pictures" in shown
        assert "HTTP 404" in shown
        assert (to / "11.jpg").read_bytes() == jpeg(1)
        assert sorted(file.name for file in to.iterdir()) == [LOCK_NAME, "11.jpg", "manifest.jsonl"]
        run(*words, "--to", to, "--allow-private", "--json")
        report = json.loads(capsys.readouterr().out)
        assert (report["done"], report["dead"], report["requests"]) == (1, 2, 0)


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, ""), (4.4, "4 s left"), (150, "2 min left"), (7200, "2.0 h left")]
)
def test_time_left_as_a_person_says_it(seconds, said):
    assert span(seconds) == said
