"""The examples of the interface, on its page and in docs/studio.md, against a running studio."""

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import docx
import pytest

pytestmark = pytest.mark.slow
CHOSEN = "0123456789abcdef0123"
DOCS = Path(__file__).parents[2] / "docs" / "studio.md"


@pytest.fixture(scope="module")
def api_studio(tmp_path_factory, library: Path, serve_studio):
    """Address of a studio whose token was chosen."""
    with serve_studio(library, tmp_path_factory.mktemp("projects"), token=CHOSEN) as address:
        yield address


def run(command: list[str], folder: Path) -> str:
    """What a program prints, in a folder of its own, with the token where the page wants it."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "LIMNER_TOKEN": CHOSEN},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.skipif(not shutil.which("curl") or not shutil.which("bash"), reason="needs curl and bash")
def test_the_examples_of_the_page_run_as_they_stand(api_studio: str, tmp_path: Path) -> None:
    asked = Request(f"{api_studio}/docs", headers={"Authorization": f"Bearer {CHOSEN}"})  # noqa: S310
    with urlopen(asked, timeout=60) as answer:  # noqa: S310
        course, _, rest = answer.read().decode().partition("</ol>")
    shell = re.compile('<code class="shell">(.*?)</code>', re.DOTALL)
    first, others = ([html.unescape(one) for one in shell.findall(part)] for part in (course, rest))
    # What needs a job or a folder that only some have, or changes what other tests use, is not run.
    unfit = re.compile(r"\$(JOB|BATCH|ITEM)\b|DELETE|PUT|/home/me|(undo|redo)\"|batches\" --json")
    fit = [one for one in others if not unfit.search(one)]
    assert len(first) > 4
    assert len(fit) > 20
    newest = next(one for one in first if "REVISION=" in one).partition("\ncurl")[0]
    script = "\n".join(["set -e -o pipefail", *first, *(f"{newest}\n{one}\necho" for one in fit)])
    (tmp_path / "examples.sh").write_text(script.replace("curl -sS", "curl -sS --fail-with-body"))
    document = docx.Document()
    document.add_paragraph("A fox flew a kite.")
    document.save(str(tmp_path / "manual.docx"))
    run(["bash", "examples.sh"], tmp_path)
    assert (tmp_path / "storyboard.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "picture.webp").read_bytes()[8:12] == b"WEBP"


def test_the_example_in_python_runs_as_it_stands(api_studio: str, tmp_path: Path, story: str) -> None:
    (example,) = re.findall("```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "recipe.md").write_text(story)
    (tmp_path / "example.py").write_text(example.replace("http://127.0.0.1:8420", api_studio))
    run([sys.executable, "example.py"], tmp_path)
