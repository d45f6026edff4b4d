"""``limner verify`` finds a flipped bit in what limner stores, says what to do, and repairs what it can."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from damaged import unnamed
from fakes import FakeImages, noise_picture
from made_up_results import result
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import save

from limner.checksums import unseal
from limner.cli.main import run
from limner.errors import MissingError
from limner.files import write_text
from limner.research.datasets.features import ROWS, FeatureKey, extract
from limner.research.datasets.neighbours import PairScores, write_pair_scores
from limner.research.evaluation.refinement import Refinement, write_refinement
from limner.research.runs.metric import write_pairwise
from limner.research.systems.complementary import memory
from limner.research.systems.complementary.model import ComplementaryConfig
from limner.research.training import checkpoint
from limner.research.training.checkpoint import HISTORY
from limner.scale.ingest import index
from limner.scale.library import PictureStore
from limner.scale.search import Evidence
from limner.studio.pictures import Thumbnails, cache_folder
from limner.verification import NOT_COVERED

KEY = FeatureKey(data="made-up", backbone="mean", weights_sha256="ab" * 32, transform="none")


def flip(path, number=-9):
    data = bytearray(path.read_bytes())
    data[number] ^= 4
    path.write_bytes(data)


def told(capsys, *words):
    status = run(["verify", *map(str, words), "--json"])
    return status, {one["path"]: one["state"] for one in json.loads(capsys.readouterr().out)}


def covered(states):
    """States of all but the hints that Lance rewrites at will."""
    return {state for path, state in states.items() if not path.endswith("latest_version_hint.json")}


@pytest.fixture
def library(tmp_path):
    (tmp_path / "pictures").mkdir()
    for number in range(4):
        noise_picture(number).save(tmp_path / "pictures" / f"{number}.png")
    index([tmp_path / "pictures"], tmp_path / "lib", image_encoders=[FakeImages()])
    PictureStore.open(tmp_path / "lib").gallery(["visual"])
    return tmp_path / "lib"


def test_a_sound_library_is_told_so_and_its_cache_is_repaired(library, capsys):
    status, states = told(capsys, library)
    assert (status, covered(states)) == (0, {"sound"})
    path = next((library / "cache").rglob("[!.]*.vectors"))
    flip(path, 20)
    assert told(capsys, library)[1][str(path)] == "damaged"
    assert run(["verify", str(library)]) == 1
    assert "creates it again" in capsys.readouterr().out
    assert told(capsys, library, "--repair")[1][str(path)] == "repaired"
    assert told(capsys, library)[0] == 0


def test_damaged_vectors_are_taken_out_and_indexing_makes_them_again(library, tmp_path, capsys):
    due = np.array(PictureStore.open(library).gallery(["visual"]).space("visual").matrix)
    for path in (library / "tables" / "vectors_visual.lance" / "data").iterdir():
        flip(path, 40)
    table = str(library / "tables" / "vectors_visual.lance")
    assert told(capsys, library)[1][table] == "damaged"
    assert told(capsys, library, "--repair")[1][table] == "repaired"
    index([tmp_path / "pictures"], library, image_encoders=[FakeImages()])
    assert np.array_equal(PictureStore.open(library).gallery(["visual"]).space("visual").matrix, due)
    assert told(capsys, library)[0] == 0


def test_damaged_pictures_are_for_a_backup(library, capsys):
    for path in (library / "tables" / "pictures.lance" / "data").iterdir():
        flip(path, 40)
    assert told(capsys, library, "--repair")[0] == 1


def test_damaged_features_are_taken_out_and_extracted_again(tmp_path, capsys):
    paths = {}
    for number in range(4):
        paths[str(number)] = tmp_path / f"{number}.png"
        Image.new("RGB", (8, 8), (60 * number, 9, 0)).save(paths[str(number)])

    def extracted():
        return extract(
            tmp_path / "store",
            KEY,
            paths,
            prepare=lambda image: np.asarray(image, np.uint8),
            forward=lambda batch: batch.mean((1, 2), dtype=np.float32),
            side_px=8,
        )

    due = np.array(extracted().stored)
    assert told(capsys, tmp_path / "store")[0] == 0
    flip(tmp_path / "store" / KEY.folder / ROWS, 13)
    assert told(capsys, tmp_path / "store")[0] == 1
    assert set(told(capsys, tmp_path / "store", "--repair")[1].values()) == {"repaired"}
    assert np.array_equal(extracted().stored, due)
    assert told(capsys, tmp_path / "store")[0] == 0


def test_a_damaged_checkpoint_is_named(tmp_path, capsys):
    checkpoint.save(tmp_path / "model.safetensors", {"a": torch.ones(9)}, {"n": 1})
    assert told(capsys, tmp_path)[0] == 0
    flip(tmp_path / "model.safetensors")
    due = {str(tmp_path / "model.safetensors"): "damaged", str(tmp_path / "digests.json"): "sound"}
    assert told(capsys, tmp_path) == (1, due)


def of_older_version(path):
    """The file as it was written before checksums."""
    if path.suffix == ".safetensors":
        with safe_open(path, "np") as file:
            about = {name: value for name, value in file.metadata().items() if name != "checksum"}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no mapping)
        path.write_bytes(save(arrays, about))
    else:
        path.write_bytes(unseal(path.read_bytes(), path, ""))


@pytest.fixture
def written_run(tmp_path):
    """All that limner writes into the folder of a run, and the epoch memory."""
    run = tmp_path / "run"
    run.mkdir()
    model = SimpleNamespace(dim=2, heads=1, device=torch.device("cpu"))
    corpus = SimpleNamespace(train=range(3), pictures=None)
    config = ComplementaryConfig.model_validate({"data": {"set": "pairs"}})
    held = memory.EpochMemory(model, corpus, config)
    held.open(run)
    for _ in range(2):
        held.write(torch.arange(3), torch.rand(3, 1, 2), torch.rand(3, 1, 2))
        held.close()
    checkpoint.save(run / "model.safetensors", {"a": torch.ones(9)}, {"n": 1})
    checkpoint.save(run / "resume.safetensors", checkpoint.prefixed("memory", held.state()), {"n": 1})
    write_pair_scores(PairScores(("a", "b"), {"weight": np.ones(2, np.float32)}, 1), run)
    write_refinement(run, Refinement(0.1, 0.2))
    write_pairwise(run, Evidence(slope=1, z_slope=0, offset=0))
    checkpoint.write_history(run / HISTORY, [{"epoch": 0}, {"epoch": 1}])
    result("Base", 1.0, count=20, pool_size=5).write(run)
    return run


WRITTEN = (
    "model.safetensors",
    "resume.safetensors",
    "pair_scores.safetensors",
    "refinement.json",
    "pairwise.json",
    "results/clue-grouped-test.json",
    "bank/0-0.text",
    "history.jsonl",
    "digests.json",
)
AGAIN = {f"bank/0-0.{part}" for part in ("image", "stamps", "sums")} | {
    f"bank/0-1.{part}" for part in ("text", "image", "stamps", "sums")
}
"""Parts of the tables, named by the first, and tables that the next epoch writes anew."""


def states_of(run, **other):
    """Path → state, of a run in which all is sound but some."""
    states = dict.fromkeys(WRITTEN, "sound") | dict.fromkeys(AGAIN, "not checked") | other
    return {str(run / name): state for name, state in states.items()}


def test_everything_that_a_run_wrote_is_found_sound(written_run, capsys):
    assert told(capsys, written_run) == (0, states_of(written_run))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_flipped_bit_of_any_file_of_a_run_is_named(written_run, capsys, name):
    flip(written_run / name, -4)
    due = states_of(written_run, **{name: "damaged"})
    if name == "resume.safetensors":  # which says what to look at in the memory of an epoch
        due |= {path: "not checked" for path in due if "bank" in path}
    if name == "digests.json":
        due |= {str(written_run / "history.jsonl"): "not checked"}
    assert told(capsys, written_run) == (1, due)


@pytest.mark.parametrize("name", ["model.safetensors", "history.jsonl", "results/clue-grouped-test.json"])
def test_a_file_that_a_run_noted_and_has_no_more_is_named(written_run, capsys, name):
    (written_run / name).unlink()
    assert told(capsys, written_run) == (1, states_of(written_run, **{name: "missing"}))


def test_training_that_is_killed_between_a_file_and_its_digest_is_sound(written_run, capsys, monkeypatch):
    def killed(path, text):
        if path.name == HISTORY:
            raise KeyboardInterrupt
        write_text(path, text)

    monkeypatch.setattr(checkpoint, "write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.write_history(written_run / HISTORY, [{"epoch": 0}, {"epoch": 1}, {"epoch": 2}])
    assert told(capsys, written_run) == (0, states_of(written_run))


def test_a_run_of_an_older_version_is_not_checked_and_that_is_said(written_run, capsys):
    (written_run / "digests.json").unlink()
    for path in (*written_run.glob("*.*"), *(written_run / "results").iterdir()):
        if path.suffix != ".jsonl":
            of_older_version(path)
    status, states = told(capsys, written_run)
    banks = {path for path in states if "bank" in path}
    assert status == 0
    assert {states[path] for path in states.keys() - banks} == {"not checked"}
    assert {str(written_run / name) for name in WRITTEN} <= states.keys()
    assert run(["verify", str(written_run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"{written_run / 'refinement.json'}: not checked: written before checksums" in lines


def test_a_library_of_an_older_version_is_not_checked_and_that_is_said(library, capsys):
    of_older_version(library / "library.json")
    for path in (library / "tables").rglob("limner.checksums"):
        path.unlink()
    status, states = told(capsys, library)
    kept = {path: state for path, state in states.items() if "/cache/" not in path}
    assert (status, set(kept.values())) == (0, {"not checked"})
    assert len(kept) > 6
    PictureStore.open(library).save()
    assert told(capsys, library)[1][str(library / "library.json")] == "sound"


def test_a_damaged_small_copy_is_named(library, capsys):
    held = PictureStore.open(library)
    picture = held.pictures(held.gallery([]).ids[:1])[0]
    Thumbnails(cache_folder(held)).get(picture, 96)
    (copy,) = cache_folder(held).rglob("*.webp")
    assert covered(told(capsys, library)[1]) == {"sound"}
    flip(copy)
    status, states = told(capsys, library)
    assert (status, [path for path, state in states.items() if state == "damaged"]) == (1, [str(copy)])
    assert told(capsys, library, "--repair")[1][str(copy)] == "repaired"
    assert not copy.exists()


def test_other_folders_are_refused(tmp_path, capsys):
    assert run(["verify", str(tmp_path)]) == 1
    assert "no library, project, run, feature store or study" in capsys.readouterr().err
    shutil.rmtree(tmp_path)


@pytest.mark.slow
def test_every_file_of_a_library_is_named_or_said_to_be_not_covered(library):
    brought = library / "pictures" / "batch"
    brought.mkdir(parents=True)
    noise_picture(9).save(brought / "mine.png")
    index([library / "pictures"], library, image_encoders=[FakeImages()])
    PictureStore.open(library).gallery(["visual"])
    assert unnamed(library, again="cache") == []


def test_every_file_of_a_trained_run_is_named_or_said_to_be_not_covered(drawings_run, tmp_path):
    folder = shutil.copytree(drawings_run, tmp_path / "run")
    result("Base", 1.0, count=20, pool_size=5).write(folder)
    assert {one.name for one in folder.iterdir()} >= {
        "model.safetensors",
        "resume.safetensors",
        "history.jsonl",
    }
    assert unnamed(folder) == []


@pytest.mark.slow
def test_twenty_of_twenty_damaged_models_are_named(drawings_run, tmp_path, capsys):
    folder = shutil.copytree(drawings_run, tmp_path / "run")
    sound = (folder / "model.safetensors").read_bytes()
    for number in range(20):
        (folder / "model.safetensors").write_bytes(sound)
        flip(folder / "model.safetensors", len(sound) * (number + 1) // 21)
        assert told(capsys, folder)[0] == 1


def test_what_a_linked_cache_leads_to_is_neither_read_nor_removed(library, tmp_path, capsys):
    shutil.rmtree(library / "cache", ignore_errors=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "sales.arrow").write_bytes(b"mine")
    (library / "cache").symlink_to(tmp_path / "mine")
    assert run(["verify", str(library), "--repair"]) == 0
    assert (tmp_path / "mine" / "sales.arrow").read_bytes() == b"mine"


def test_a_file_in_the_cache_that_limner_did_not_name_is_left_alone(library, capsys):
    (library / "cache").mkdir(exist_ok=True)
    (library / "cache" / "sales.arrow").write_bytes(b"mine")
    run(["verify", str(library), "--repair"])
    assert (library / "cache" / "sales.arrow").read_bytes() == b"mine"


def test_checks_of_what_is_not_installed_are_left_out(library, monkeypatch, capsys):
    class Absent:
        name = "studies"

        def load(self):
            raise MissingError("sqlalchemy is not installed")

    monkeypatch.setattr("limner.verification.entry_points", lambda group: [Absent()])
    assert run(["verify", str(library)]) == 0
    assert run(["verify", str(library / "nowhere")]) == 1
    assert "sqlalchemy" not in capsys.readouterr().err


def test_damaged_notes_of_a_table_are_taken_out_on_request(library, capsys):
    notes = next((library / "tables").glob("pictures.lance/*.checksums"))
    flip(notes, -20)
    assert told(capsys, library)[0] == 1
    assert run(["verify", str(library), "--repair"]) == 0
    capsys.readouterr()
    assert not notes.exists()
    assert len(PictureStore.open(library)) > 0
    assert told(capsys, library)[0] == 0


def test_files_that_no_checksum_covers_are_counted_in_one_line(library, capsys):
    run(["verify", str(library), "--json"])
    bare = [one["path"] for one in json.loads(capsys.readouterr().out) if one["advice"] == NOT_COVERED]
    run(["verify", str(library)])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if NOT_COVERED in line]
    assert f": {len(bare)} file" in line
    assert bare[0] in line
