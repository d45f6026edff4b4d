"""The commands that docs/scale.md begins with, against an object store and a Ray of this one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import noise_picture
from object_store import s3_server
from pyarrow.fs import S3FileSystem

import limner

ROOT = Path(__file__).parents[1]
NAMES = ("a white goat", "a red barn", "dogs in the water", "a surfer on a wave", "fireworks", "two ships")
VARYING = (
    (re.compile(r"s3://photos/\S+"), "PICTURE"),
    (re.compile(r"^(best epoch|refinement) .*", re.MULTILINE), r"\1"),
    (re.compile(r"\d[\d,.]*"), "0"),
)


def shown(output):
    """What a command prints, but for numbers and which picture was chosen."""
    for varying, word in VARYING:
        output = varying.sub(word, output)
    return output.strip()


@pytest.mark.slow
@pytest.mark.soak  # Ray and a store of objects are shown alone, and what torchrun sets in test_nodes.py
@pytest.mark.skipif(os.name == "nt", reason="torchrun is of Unix")
def test_the_first_commands_of_the_page_run_as_they_stand(tmp_path):
    for package in ("ray", "moto"):
        pytest.importorskip(package)
    section = (ROOT / "docs" / "scale.md").read_text("utf-8").partition("\n## Three commands\n")[2]
    (block,) = re.findall(r"^```console\n(.*?)^```$", section.partition("\n## ")[0], re.DOTALL | re.MULTILINE)
    (tmp_path / "trip.md").write_text("".join(f"In the picture: {name}.\n\n" for name in NAMES[:4]))
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    here = {"PATH": path, "PYTHONPATH": str(Path(limner.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    with s3_server(tmp_path / "log") as reached:
        store = S3FileSystem(
            access_key=reached["AWS_ACCESS_KEY_ID"],
            secret_key=reached["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=reached["AWS_ENDPOINT_URL"],
            region=reached["AWS_REGION"],
            allow_bucket_creation=True,
        )
        store.create_dir("bucket")
        store.create_dir("photos")
        for number, name in enumerate(NAMES):
            noise_picture(number).save(tmp_path / "one.jpg")
            with store.open_output_stream(f"photos/{name.replace(' ', '-')}.jpg") as out:
                out.write((tmp_path / "one.jpg").read_bytes())
        commands = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
        assert len(commands) == 3
        for command, _, due in (one.partition("\n") for one in commands):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=os.environ | reached | here | {"XDG_DATA_HOME": str(tmp_path / "data")},
                capture_output=True,
                text=True,
                check=False,
                timeout=500,
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            assert shown(done.stdout) == shown(due)
    assert (tmp_path / "trip.html").read_text("utf-8").count('alt="Step ') == 4
    assert (tmp_path / "runs" / "cmcm" / "model.safetensors").is_file()
