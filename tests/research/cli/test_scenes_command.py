"""``limner scenes``: graphs of a folder and of a library, going on after a stop, and graphs of others."""

import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from limner.errors import CheckpointError, ConfigError, DataError, LimnerWarning, MissingError
from limner.research.cli.scenes import scenes, sources
from limner.research.scenes.detect import detect_scenes as detect_with_ids
from limner.research.scenes.detect import import_scenes as import_with_ids
from limner.research.scenes.detections import Detections
from limner.research.scenes.folder import ABOUT, GRAPHS, JOURNAL, PAGE, SKIPPED, matched
from limner.research.scenes.graphs import SceneGraph, SceneObject, read_graphs, write_graphs
from limner.research.scenes.prior import RelationPrior, save_prior


def detect_scenes(source, *words, **options):
    """By paths, which a test can read."""
    return detect_with_ids(sources(source), *words, ids="path", **options)[0]


def import_scenes(source, *words):
    return import_with_ids(sources(source), *words, ids="path")[0]


class Finder:
    """Sees a cup on a table in bright pictures, nothing in dark ones."""

    name, fingerprint, side_px = "finder", "ab" * 32, 32

    def __init__(self):
        self.seen, self.batches = 0, []

    def detect(self, images):
        self.seen += len(images)
        self.batches.append(len(images))
        return [self._one(image) for image in images]

    def _one(self, image):
        boxes = [(0.4, 0.1, 0.6, 0.5), (0.0, 0.4, 1.0, 1.0), (0.1, 0.1, 0.5, 0.5)]
        labels = ("cup", "table", "owl") if np.asarray(image).mean() > 100 else ()
        scores = np.asarray([0.9, 0.8, 0.7], np.float32)[: len(labels)]
        return Detections(np.asarray(boxes, np.float32)[: len(labels)], labels, scores)


def paint(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (60, 40), (value,) * 3).save(path)


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    paint(folder / "bright.png", 200)
    paint(folder / "below" / "dark.png", 10)
    paint(folder / "below" / "light.png", 220)
    (folder / "broken.jpg").write_bytes(b"no picture")
    (folder / "notes.txt").write_text("words")
    return folder


@pytest.fixture
def prior():
    counts = np.ones((2, 2, 3), np.int64) * [99, 0, 0]
    counts[0, 1] = [10, 80, 10]
    return RelationPrior(("cup", "table"), ("on", "near"), counts)


def test_every_picture_gets_its_graph_and_the_broken_one_is_listed(pictures, tmp_path, prior):
    start = time.monotonic()
    report = detect_scenes(pictures, tmp_path / "out", Finder(), prior=prior)
    graphs = read_graphs(tmp_path / "out" / GRAPHS)
    assert list(graphs) == ["bright.png", "below/dark.png", "below/light.png"]
    assert graphs["below/dark.png"].empty
    bright = graphs["bright.png"]
    assert [thing.label for thing in bright.objects] == ["cup", "table", "owl"]
    (relation,) = bright.relations
    assert (relation.s, relation.p, relation.o) == (0, "on", 1)
    assert relation.score == pytest.approx(0.8 * 0.9 * 0.8, abs=1e-4)
    assert (report.pictures, report.looked_at, report.empty) == (3, 3, 1)
    assert report.seconds <= time.monotonic() - start + 0.1, "rounded to tenths"
    assert (report.objects, report.relations, report.related_by) == (6, 2, "prior")
    assert report.unmatched == {"owl": 2}
    assert [Path(one.path).name for one in report.skipped] == ["broken.jpg"]
    skipped = json.loads((tmp_path / "out" / SKIPPED).read_text())
    assert skipped["path"].endswith("broken.jpg")
    assert sorted(path.name for path in pictures.iterdir()) == [
        "below",
        "bright.png",
        "broken.jpg",
        "notes.txt",
    ]


def test_a_second_run_looks_only_at_what_changed(pictures, tmp_path, prior):
    out = tmp_path / "out"
    detect_scenes(pictures, out, Finder(), prior=None)
    first = (out / GRAPHS).read_bytes()
    finder = Finder()
    assert detect_scenes(pictures, out, finder, prior=None).looked_at == 0
    assert (finder.seen, (out / GRAPHS).read_bytes()) == (0, first)
    # another prior relates anew without looking again
    report = detect_scenes(pictures, out, finder, prior=prior)
    assert (finder.seen, report.relations) == (0, 2)
    paint(pictures / "bright.png", 5)
    paint(pictures / "new.png", 250)
    (pictures / "below" / "light.png").unlink()
    report = detect_scenes(pictures, out, finder, prior=None)
    assert (finder.seen, report.looked_at, report.pictures, report.empty) == (2, 2, 3, 2)
    assert detect_scenes(pictures, out, finder, prior=None, again=True).looked_at == 3


def test_a_run_that_was_killed_goes_on_and_ends_with_the_same_graphs(pictures, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "out"
    detect_scenes(pictures, whole, Finder(), prior=None)
    detect_scenes(pictures, out, Finder(), prior=None)
    journal = (out / JOURNAL).read_bytes()
    (out / JOURNAL).write_bytes(journal[:-20])  # the last line is torn
    (out / GRAPHS).unlink()
    finder = Finder()
    assert detect_scenes(pictures, out, finder, prior=None).looked_at == 1
    assert finder.seen == 1
    assert (out / GRAPHS).read_bytes() == (whole / GRAPHS).read_bytes()
    assert (out / JOURNAL).read_bytes() == journal


@pytest.mark.parametrize(("batch", "batches"), [(1, [1, 0, 1, 1]), (2, [1, 2]), (16, [3])])
def test_graphs_do_not_depend_on_the_batch(pictures, tmp_path, batch, batches):
    """Four files in order of their paths, of which the second is broken."""
    detect_scenes(pictures, tmp_path / "default", Finder(), prior=None)
    finder = Finder()
    detect_scenes(pictures, tmp_path / "out", finder, prior=None, batch=batch, workers=3)
    assert finder.batches == batches
    assert (tmp_path / "out" / GRAPHS).read_bytes() == (tmp_path / "default" / GRAPHS).read_bytes()
    assert (tmp_path / "out" / JOURNAL).read_bytes() == (tmp_path / "default" / JOURNAL).read_bytes()


def test_another_detector_never_adds_to_a_folder(pictures, tmp_path):
    out = tmp_path / "out"
    detect_scenes(pictures, out, Finder(), prior=None)
    other = Finder()
    other.fingerprint = "cd" * 32
    with pytest.raises(ConfigError, match="made with fingerprint"):
        detect_scenes(pictures, out, other, prior=None)
    with pytest.raises(ConfigError, match=r"made with min_score 0\.3, now 0\.5"):
        detect_scenes(pictures, out, Finder(), prior=None, min_score=0.5)
    with pytest.raises(ConfigError, match="min_score 2, expected a number"):
        detect_scenes(pictures, out, Finder(), prior=None, min_score=2)
    (out / ABOUT).write_text("{}")
    with pytest.raises(CheckpointError, match="--again"):
        detect_scenes(pictures, out, Finder(), prior=None)
    (out / ABOUT).unlink()
    with pytest.raises(DataError, match=r"holds '.*'; give an empty or new folder"):
        detect_scenes(pictures, pictures, Finder(), prior=None)


def test_a_damaged_line_of_the_journal_is_looked_for_again_and_that_is_said(pictures, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "out"
    for folder in (whole, out):
        detect_scenes(pictures, folder, Finder(), prior=None)
    journal = (out / JOURNAL).read_bytes()
    for place in range(0, journal.index(b"\n"), 29):
        (out / JOURNAL).write_bytes(journal[:place] + bytes([journal[place] ^ 2]) + journal[place + 1 :])
        with pytest.warns(
            LimnerWarning, match="1 line damaged; objects in their pictures are detected again"
        ):
            assert detect_scenes(pictures, out, Finder(), prior=None).looked_at == 1
        assert (out / GRAPHS).read_bytes() == (whole / GRAPHS).read_bytes()


def test_a_damaged_journal_is_one_line(pictures, tmp_path, executable_payload):
    out = tmp_path / "out"
    detect_scenes(pictures, out, Finder(), prior=None)
    (out / JOURNAL).write_bytes(executable_payload(tmp_path / "ran") + b"\n")
    with pytest.raises(CheckpointError, match="damaged; pass --again"):
        detect_scenes(pictures, out, Finder(), prior=None)
    assert not (tmp_path / "ran").exists()


def test_no_pictures_and_no_folder_are_said(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no picture"):
        detect_scenes(tmp_path / "empty", tmp_path / "out", Finder(), prior=None)
    with pytest.raises(MissingError, match="no such folder"):
        detect_scenes(tmp_path / "none", tmp_path / "out", Finder(), prior=None)


def test_pictures_of_a_library_go_by_its_ids(pictures, tmp_path):
    from fakes import FakeImages, FakeTexts

    from limner.store.database import Database
    from limner.store.index import index

    index([pictures], tmp_path / "lib", image_encoders=[FakeImages()], text_encoder=FakeTexts())
    detect_scenes(tmp_path / "lib", tmp_path / "out", Finder(), prior=None)
    graphs = read_graphs(tmp_path / "out" / GRAPHS)
    library = Database(tmp_path / "lib")
    named = {Path(library.pictures([image])[0].path).name: graph for image, graph in graphs.items()}
    assert set(named) == {"bright.png", "dark.png", "light.png"}
    assert named["dark.png"].empty


def test_a_graph_goes_by_the_hash_of_its_picture_as_training_sets_do(pictures, tmp_path):
    (pictures / "copy.png").write_bytes((pictures / "bright.png").read_bytes())
    report, found = detect_with_ids(sources(pictures), tmp_path / "out", Finder(), prior=None)
    graphs = read_graphs(tmp_path / "out" / GRAPHS)
    files = [pictures / name for name in ("bright.png", "below/dark.png", "below/light.png")]
    assert list(graphs) == [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    assert (report.pictures, report.files, report.looked_at) == (3, 4, 4)
    assert [Path(os.fsdecode(path)) for path in found.values()] == files
    write_graphs(tmp_path / "given.jsonl", [next(iter(graphs.values())).model_copy(update={"image": "copy"})])
    import_with_ids(sources(pictures), tmp_path / "other", tmp_path / "given.jsonl")
    assert list(read_graphs(tmp_path / "other" / GRAPHS)) == list(graphs)[:1]


def test_foreign_graphs_find_their_pictures_by_name(pictures, tmp_path):
    thing = SceneObject(label="moon", box=(0, 0, 0.5, 0.5), score=1)
    names = ("below/dark.png", "light.png", "bright", "nobody")
    given = [SceneGraph(image=name, objects=(thing,), relations=()) for name in names]
    write_graphs(tmp_path / "given.jsonl", given)
    report = import_scenes(pictures, tmp_path / "out", tmp_path / "given.jsonl")
    assert sorted(read_graphs(tmp_path / "out" / GRAPHS)) == [
        "below/dark.png",
        "below/light.png",
        "bright.png",
    ]
    assert (report.unused, report.pictures) == (("nobody",), 3)
    write_graphs(tmp_path / "given.jsonl", given[-1:])
    with pytest.raises(DataError, match="none of 1 graph names a picture"):
        import_scenes(pictures, tmp_path / "out", tmp_path / "given.jsonl")
    assert matched(["a/x.png", "b/x.png", "c.png"], ["x.png", "x", "c", "a/x.png"]) == {
        "c": "c.png",
        "a/x.png": "a/x.png",
    }


def detector_file(folder):
    """A YOLOX model that sees one thing in the middle."""
    pytest.importorskip("openvino", reason="OpenVINO is not installed")
    from test_onnx_detector import made_up, yolox_output

    (folder / "names.txt").write_text("cup\ntable\n")
    return made_up(folder, [yolox_output()])


def test_the_command_writes_graphs_and_a_page(pictures, tmp_path, prior, capsys):
    model = detector_file(tmp_path)
    save_prior(prior, tmp_path / "prior.safetensors")
    options = {"detector": str(model), "classes": tmp_path / "names.txt", "to": tmp_path / "out"}
    scenes(pictures, **options)
    shown = capsys.readouterr()
    assert "3 graphs of 3 files (3 processed now" in shown.out
    assert "broken.jpg" in shown.out
    assert "positions of the boxes alone" in shown.err
    page = (tmp_path / "out" / PAGE).read_text()
    assert page.count("<article>") == 3
    assert "relations by the position of the boxes" in page
    scenes(pictures, **options, prior=tmp_path / "prior.safetensors", page=1, json=True)
    shown = capsys.readouterr()
    assert json.loads(shown.out)["related_by"] == "prior"
    page = (tmp_path / "out" / PAGE).read_text()
    assert page.count("<article>") == 1
    assert "1 of 3 pictures" in page


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "either --detector"),
        ({"detector": "x.onnx", "graphs": Path("g.jsonl")}, "either --detector"),
        ({"detector": "x.onnx", "labels": "coco"}, "pass --prior"),
        ({"detector": "x.onnx", "page": -1}, "at least 0"),
        ({"detector": "x.onnx", "workers": 0}, "at least 1"),
        ({"detector": "x.onnx", "batch": 0}, "--batch 0, expected at least 1"),
        ({"detector": "x.onnx", "device": "cuda:99"}, "device 'cuda:99': torch finds"),
        ({"detector": "yolo"}, "unknown detector 'yolo'"),
    ],
)
def test_misuse_is_said(pictures, tmp_path, options, told):
    with pytest.raises(ConfigError, match=told):
        scenes(pictures, to=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
