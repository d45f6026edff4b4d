"""Every command of the pages that lead from a download to a published table, on miniatures of the data."""

import re

import numpy as np
import pytest
import released

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


def cmcm(data):
    released.cite_plus(data / "cite++", 24)
    released.clue(data / "clue", 24)


def complementary(data):
    released.coco(data / "coco", 40)
    released.goodnews(data / "goodnews", 40)
    released.politics(data / "politics", 40)
    released.conceptual(data / "conceptual", 40)
    for number in range(40):  # a fetch finds them there and asks no one
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


def on_a_miniature(words):
    """A command of a page as it is run here: as it stands, but small where it trains and without a card.

    What trains takes ``--smoke``, since a published run needs weights and days; its settings as they stand
    are resolved by `test_documented_commands`.
    """
    words = ["cpu" if word == "cuda" else word for word in words]
    if words[0] == "train":
        words.append("--smoke")
    if words[0] == "table" and "--resamples" not in words:
        words += ["--resamples", "50"]
    if "--choices" in words:  # a hundred options need more pairs than a miniature holds
        words[words.index("--choices") + 1] = "3"
    return words


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "paper",  # of one page the commands run in make test; those of the others are made the same way
    [one if one == "vrss" else pytest.param(one, marks=pytest.mark.soak) for one in MINIATURES],
)
def test_a_page_leads_from_the_data_to_its_tables(paper, tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / "reproduce" / f"{paper}.md").read_text("utf-8")
    script = "".join(re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert "export LIMNER_DATA=$PWD\n" in script
    (tmp_path / "bin").mkdir()
    commands = recorded(tmp_path / "bin", script)
    assert script.count("limner ") <= len(commands)
    MINIATURES[paper](tmp_path / "data")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIMNER_DATA", str(tmp_path))
    monkeypatch.setattr("limner.research.scenes.folder.detector", lambda *words, **options: Finder())
    for words in commands:
        status = run(on_a_miniature(words))
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
            if words[1] == "complementary-1":  # whose rows of whole sets stay empty beside those of parts
                assert shown.out.count("-first48, COMBINED-STATS") == len(missing) == 4
            else:
                assert missing <= {"text only"}, f"limner {' '.join(words)}"  # which no paper has
