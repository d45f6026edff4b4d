"""Every command of the pages that lead from a download to a published table, on miniatures of the data."""

import re

import numpy as np
import pytest
import released
from torch import nn

from limner.cli.main import run
from limner.research.scenes.detections import Detections
from test_documented_commands import ROOT, recorded

PAGES = sorted((ROOT / "docs" / "reproduce").glob("*.md"))


class Finder:
    """In place of a detector, whose weights are a download: a cup on a table in every picture."""

    name, fingerprint, side_px = "finder", "ab" * 32, 32

    def detect(self, images):
        boxes = np.array([(0.4, 0.1, 0.6, 0.5), (0.0, 0.4, 1.0, 1.0)], np.float32)
        scores = np.array([0.9, 0.8], np.float32)
        return [Detections(boxes, ("cup", "dining table"), scores) for _ in images]


def network(labels):
    """In place of VGG-19, whose weights are a download."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, labels))


def cmcm(data):
    released.cite_plus(data / "cite++", 24)
    released.clue(data / "clue", 80)


def complementary(data):
    released.coco(data / "coco", 64)
    released.goodnews(data / "goodnews", 64)
    released.politics(data / "politics", 64)
    released.conceptual(data / "conceptual", 64)
    for number in range(64):  # a fetch finds them there and asks no one
        released.picture(data / "conceptual" / "images" / f"{number}.jpg", number)


def gsda(data):
    released.vist(data / "vist", 20)
    thing = {"x": 0, "y": 0, "w": 9, "h": 9}
    relation = {"predicate": "on", "subject": {"name": "cup"} | thing, "object": {"name": "table"} | thing}
    (data / "vg").mkdir()
    released.write(data / "vg" / "relationships.json", [{"image_id": 1, "relationships": [relation]}])


def vrss(data):
    released.recipeqa(data / "recipeqa", 20)
    released.recipe_pages(data / "pages")


MINIATURES = {"cmcm": cmcm, "complementary": complementary, "gsda": gsda, "vrss": vrss}


def unfilled(table):
    """Rows of a Markdown table whose first figure, after name and settings, is not there."""
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line[:2] == "| "
    ]
    first, names = 1, set()
    for cells in rows:
        if cells[0] in ("model", "system", "relation", "data set"):  # the head of a table
            first = 1 + (cells[1] == "settings")
        elif cells[first].startswith("–"):
            names.add(cells[0])
    return names


def test_there_is_a_page_for_every_paper():
    assert {page.stem for page in PAGES} == {*MINIATURES, "index"}
    index = (ROOT / "docs" / "reproduce" / "index.md").read_text("utf-8")
    assert all(f"]({name}.md)" in index for name in MINIATURES)


def first_rows(script):
    """The script with only those rows of its loops that a later command names, or else the first."""
    named = set(
        re.findall(r"--(?:run|tested|control|relation|set keys_run)[ =]\S*?(?:=)?runs/\S+?/(\S+)", script)
    )

    def short(loop):
        rows = loop[2].split()
        return f"{loop[1]}{' '.join(row for row in rows if row.split('/')[-1] in named) or rows[0]}; do"

    return re.sub(r"^(for (?:set|row|weight|words) in )(.*); do$", short, script, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["first", pytest.param("every", marks=pytest.mark.soak)])
@pytest.mark.parametrize("paper", MINIATURES)
def test_a_page_leads_from_the_data_to_its_tables(paper, rows, tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / "reproduce" / f"{paper}.md").read_text("utf-8")
    script = "".join(re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert script.startswith("smoke=\nexport LIMNER_DATA=$PWD\n")
    assert "--device" not in text
    assert all(
        line.endswith(" $smoke") for line in script.splitlines() if re.match(r" *limner (train|sweep)", line)
    )
    script = script.replace("smoke=\n", "smoke=--smoke\n", 1)
    if rows == "first":
        script = first_rows(script)
    (tmp_path / "bin").mkdir()
    commands = recorded(tmp_path / "bin", script)
    assert script.count("limner ") <= len(commands)
    MINIATURES[paper](tmp_path / "data")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIMNER_DATA", str(tmp_path))
    # what is downloaded: a detector, weights
    monkeypatch.setattr("limner.research.scenes.folder.detector", lambda *words, **options: Finder())
    monkeypatch.setattr("limner.cli.models.fetch_weights", lambda name, to, progress: tmp_path / name)
    monkeypatch.setattr("limner.research.runs.judge._vgg19", network)
    for words in commands:
        status = run(words)
        shown = capsys.readouterr()
        assert status == 0, f"limner {' '.join(words)}: {shown.err}"
        if words[:2] == ["data", "audit"]:
            # a set that limner made holds no picture that is not there
            assert ("picture files exist in" in shown.out) is (words[2] != "stepwise"), words
        if words[0] == "table" and "--to" not in words:
            others = re.findall(r"\((--data \S+) shows", shown.out)
            # small runs are of data sets of their own, which a table of the whole ones says how to show
            assert bool(others) is (words[1] in ("cmcm-4", "cmcm-5", "cmcm-7", "cmcm-8")), words
            if others:
                due = {"cmcm-4": 1, "cmcm-5": 1, "cmcm-7": 2, "cmcm-8": 1}[words[1]]
                assert len(others) == due, words
                tables = []
                for own in others:
                    assert run([*words, *own.split()]) == 0
                    tables.append(capsys.readouterr().out)
            else:
                tables = [shown.out]
            # of relations that no text of a miniature has, and the complements of those
            missing = {
                row
                for one in tables
                for row in unfilled(one)
                if not row.startswith("not ") and not row.endswith("(0 queries)")
            }
            if rows == "first":  # rows that were not run stay empty
                assert len(missing) < len(re.findall(r"^\| ", "".join(tables), re.MULTILINE)) - len(tables)
            elif words[1] == "complementary-1":  # whose rows of whole sets stay empty beside those of parts
                assert shown.out.count("-first48, COMBINED-STATS") == len(missing) == 4
            else:
                assert missing <= {"text only"}, f"limner {' '.join(words)}"  # which no paper has
