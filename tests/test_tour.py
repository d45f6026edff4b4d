"""The Python of the README and of the notebook runs as it stands, on the pictures of the demonstration."""

import json
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def here(demonstration, drawings_are_encoded_once, tmp_path, monkeypatch):
    """A folder as the samples expect it."""
    (tmp_path / "demo").symlink_to(demonstration)
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_sample_of_the_readme_runs(here, capsys):
    (sample,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    exec(sample, {})  # noqa: S102
    out = capsys.readouterr().out
    assert "66 new, 0 changed, 0 unchanged, 0 skipped" in out
    assert "  5  pinned " in out
    assert (here / "far-shore.html").stat().st_size > 100_000


@pytest.mark.slow
def test_all_cells_of_the_notebook_run(here):
    cells = json.loads((ROOT / "docs" / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec("".join(cell["source"]), names)  # noqa: S102
    assert len(names["hits"]) == 2
    assert {path.suffix for path in here.glob("far-shore.*")} >= {".html", ".md", ".pptx", ".pdf", ".json"}
    assert names["board"].steps[0].origin == "pinned"
    assert "<table>" in limner_tables(names)


def limner_tables(names):
    """What the notebook shows last."""
    return names["limner"].tables.build("cmcm-5", runs="runs", data="picturebook")._repr_html_()
