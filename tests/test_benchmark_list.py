"""Every benchmark says which figure of which page it makes, and that page names its command."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
PAGES = [ROOT / "README.md", ROOT / "src/limner/encoders/base.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(scope="module")
def listed():
    spec = importlib.util.spec_from_file_location("benchmark_list", FOLDER / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its data class asks for it
    spec.loader.exec_module(module)
    yield {one.path.name: one for one in module.benchmarks()}
    del sys.modules[spec.name]


def test_every_benchmark_makes_a_figure_of_a_page_that_names_it(listed):
    for name, one in listed.items():
        assert one.pages, f"{name}: its docstring has no line 'Makes: docs/…'"
        for page in one.pages:
            assert page.is_file(), f"{name} makes a figure of {page}, which does not exist"
            named = f"benchmarks/{name}" in page.read_text(encoding="utf-8")
            assert named, f"{page} holds a figure of {name} but not its command"


def test_what_makes_no_figure_is_shared_by_benchmarks(listed):
    files = [path for path in FOLDER.rglob("*.py") if path.name not in ("__main__.py", "__init__.py")]
    imported = {
        name
        for path in files
        for names in re.findall(r"^(?:from|import) (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        for name in names.split(".")
    }
    assert not {path.stem for path in files if path.name not in listed} - imported


def test_pages_name_no_benchmark_that_is_gone():
    for page in PAGES:
        for name in re.findall(r"benchmarks/(\w+\.py)", page.read_text(encoding="utf-8")):
            assert (FOLDER / name).is_file(), f"{page} names benchmarks/{name}, which does not exist"
