"""The wheel, installed into an empty environment: pictures without words are found with no download."""

import subprocess
import sys
import venv
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

ROOT = Path(__file__).parents[1]
NO_NETWORK = """
import socket

def refuse(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6):
        raise OSError(f"no network here: {address}")
    return connect(self, address)

connect = socket.socket.connect
socket.socket.connect = refuse
"""


def needed(lines: list[str], seen: dict) -> None:
    """Every distribution that pip would install for some requirements, as the metadata here say."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    for one in map(Requirement, lines):
        key = canonicalize_name(one.name)
        if key in seen or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        try:
            seen[key] = distribution(one.name)
        except PackageNotFoundError:
            pytest.skip(f"{one.name} is not installed here: without a network no environment can be made")
        needed(seen[key].requires or [], seen)


@pytest.fixture(scope="module")
def empty_environment(tmp_path_factory):
    """An environment that holds the wheel and what it declares, and no more."""
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    build = f"import hatchling.build as b; print(b.build_wheel({str(folder)!r}))"
    built = subprocess.run(
        [sys.executable, "-c", build], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    wheel = folder / built.stdout.split()[-1]
    place = folder / "venv"
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--quiet", str(wheel)], check=True)
    (site,) = place.glob("lib/python*/site-packages")
    (own,) = distributions(name="limner", path=[str(site)])
    found: dict = {}
    needed(own.requires or [], found)
    for one in found.values():
        for top in {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")}:
            target = Path(str(one.locate_file(top)))
            if target.exists() and not (site / top).exists():
                (site / top).symlink_to(target)
    (site / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    assert not (site / "open_clip").exists()
    return place


@pytest.mark.slow
def test_a_fresh_install_illustrates_from_pixels_alone(empty_environment, tmp_path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for number, (ground, colour) in enumerate([("skyblue", "yellow"), ("black", "white"), ("green", "red")]):
        image = Image.new("RGB", (400, 300), ground)
        ImageDraw.Draw(image).ellipse((100, 50, 300, 250), fill=colour)
        image.save(pictures / f"IMG_{number:04d}.jpg")
    text = tmp_path / "text.md"
    text.write_text(
        "A yellow sun in a blue sky.\n\nThe moon at night.\n\nA red ball on the grass.\n", "utf-8"
    )

    def limner(*words):
        done = subprocess.run(
            [str(empty_environment / "bin" / "limner"), *map(str, words)],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert "pictures in the library: 3" in limner("index", pictures, "--library", "lib")
    assert "IMG_" in limner("search", "a red ball", "--library", "lib")
    assert "IMG_" in limner("search", "ein roter Ball", "--library", "lib")
    said = limner("illustrate", text, "--library", "lib", "-o", "page.html")
    assert "3 steps" in said
    assert "IMG_" in said
    assert (tmp_path / "page.html").is_file()
    home = [str(empty_environment / "bin" / "python"), "-c", "import limner; print(limner.__file__)"]
    where = subprocess.run(home, cwd=tmp_path, env={}, capture_output=True, text=True, check=True).stdout
    assert where.startswith(str(empty_environment))
