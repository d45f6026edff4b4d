"""Wheel and sdist: what is inside, and an empty environment in which all that illustrating needs works."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from filelock import FileLock
from PIL import Image, ImageDraw

ROOT = Path(__file__).parents[1]
# The sdist is packed without compression: it holds what the wheel does, which is packed as it is published.
STORED = "import functools, gzip; gzip.GzipFile = functools.partial(gzip.GzipFile, compresslevel=0); "
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


def built(kind, source, to):
    """A wheel or an sdist of a source tree, in a folder."""
    build = STORED * (kind == "sdist") + f"import hatchling.build as b; print(b.build_{kind}({str(to)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return to / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The sdist of this tree, and the wheel that is made of it.

    Built once, also where several workers share the tests of this file.
    """
    pytest.importorskip("hatchling", reason="hatchling, which builds the archives, is not installed")
    of_all = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        of_all = of_all.parent
    folder = of_all / "archives"
    finished = folder / "finished"
    with FileLock(of_all / "archives.lock"):
        if not finished.exists():
            folder.mkdir(exist_ok=True)
            sdist = built("sdist", ROOT, folder)
            with tarfile.open(sdist) as archive:
                archive.extractall(folder, filter="data")
            built("wheel", folder / sdist.name.removesuffix(".tar.gz"), folder)
            finished.touch()
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def empty_environment(archives, tmp_path_factory):
    """An environment that holds the wheel of the sdist and what it declares, and no more."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = archives[1]
    place = folder / "venv"
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-compile", "--quiet", str(wheel)], check=True)
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
    for absent in (
        "torch",
        "torchvision",
        "sklearn",
        "open_clip",
        "gensim",
        "textblob",
        "matplotlib",
        "usearch",
        "ijson",
        "rawpy",
        "av",
    ):
        assert not (site / absent).exists(), f"{absent} is of an extra"
    return place


@pytest.mark.slow
def test_both_archives_hold_everything_that_is_no_module(archives):
    """Templates, pages of the studio, fonts, weights, photographs, word lists, and all licences."""
    sdist, wheel = archives
    package = ROOT / "src" / "limner"
    due = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for part in (
        *(
            "static/storyboard.html",
            "studio/static/index.html",
            "studio/static/board.js",
            "research/study/static/base.html",
        ),
        *("export/pages.typ", "export/fonts/DejaVuSans.ttf"),
        *("encoders/base.safetensors", "encoders/base-free.safetensors"),
        *("encoders/base.bin", "encoders/base.xml", "encoders/minilm.safetensors"),
        *("research/worlds/photographs/china.jpg", "english_words.txt.gz", "py.typed"),
    ):
        assert f"limner/{part}" in due
    with zipfile.ZipFile(wheel) as one:
        names = set(one.namelist())
        about = next(name for name in names if name.endswith("/METADATA"))
        metadata = one.read(about).decode("utf-8")
        packed = {name for name in names if name.startswith("limner/")}
        assert packed == due, "the sdist lacks something, or has too much"
        for name in (
            "LICENSE",
            "NOTICE",
            "src/limner/encoders/LICENSE",
            "src/limner/export/fonts/LICENSE",
        ):
            inside = about.replace("METADATA", f"licenses/{name}")
            assert one.read(inside) == (ROOT / name).read_bytes()
            assert f"License-File: {name}" in metadata
    assert "License-Expression: MIT" in metadata
    assert "Author: limner contributors" in metadata
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for name in (
        "LICENSE",
        "NOTICE",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "pyproject.toml",
        "README.md",
    ):
        assert name in inside
    assert {f"src/{name}" for name in due} <= inside
    assert max(one.stat().st_size for one in archives) < 98e6, "PyPI takes 100 MB without asking"


@pytest.fixture
def limner(empty_environment, tmp_path):
    """Runs the installed command, without a network, in a folder of its own."""
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}

    def start(*words):
        command = [str(empty_environment / "bin" / "limner"), *map(str, words)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True)

    def run(*words):
        process = start(*words)
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        return out + err

    run.start = start
    return run


@pytest.mark.slow
@pytest.mark.soak  # the same demonstration is drawn by the command in tests/cli/test_cli.py
def test_a_fresh_install_draws_the_demonstration(limner, tmp_path):
    said = limner("demo", "demo")
    assert said.count("steps got the picture") == 6
    assert (tmp_path / "demo" / "photographs-by-pixels.html").is_file()


@pytest.mark.slow
def test_a_fresh_install_illustrates_from_pixels_alone_and_serves_the_studio(
    limner, empty_environment, tmp_path
):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for number, (ground, colour) in enumerate([("skyblue", "yellow"), ("black", "white"), ("green", "red")]):
        image = Image.new("RGB", (400, 300), ground)
        ImageDraw.Draw(image).ellipse((100, 50, 300, 250), fill=colour)
        image.save(pictures / f"IMG_{number:04d}.jpg")
    text = tmp_path / "text.md"
    text.write_text(
        "A yellow sun in a blue sky.\n\nThe moon at night.\n\nEin roter Ball auf dem Gras.\n", "utf-8"
    )

    # Its main part is found by a package that no other one asks for.
    page = tmp_path / "page.html"
    page.write_text(
        "<body><nav><a href=/>Home</a></nav><h1>Sun</h1><p>A sun over the sea.</p><p>The moon.</p></body>",
        "utf-8",
    )

    assert "pictures in the library: 3" in limner("index", pictures, "--library", "lib")
    assert "2 steps" in limner("illustrate", page, "--library", "lib", "-o", "out.html")
    said = limner("illustrate", text, "--library", "lib", "-o", "book.pdf")
    assert "3 steps" in said
    assert "IMG_" in said
    assert (tmp_path / "book.pdf").read_bytes().startswith(b"%PDF")
    studio = limner.start("studio", "--library", "lib", "--port", "0", "--no-browser")
    try:
        address = re.search(r"http://\S+", studio.stdout.readline())[0]
        # A browser: it keeps the cookie for which the token is exchanged.
        with build_opener(HTTPCookieProcessor()).open(address) as answer:
            assert "token" not in answer.url
            assert b"<title>" in answer.read()
    finally:
        studio.terminate()
        studio.communicate(timeout=60)
    home = [str(empty_environment / "bin" / "python"), "-c", "import limner; print(limner.__file__)"]
    where = subprocess.run(home, cwd=tmp_path, env={}, capture_output=True, text=True, check=True).stdout
    assert where.startswith(str(empty_environment))
