"""Who may import whom, read from the syntax trees, and what a bare import may load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import limner

SOURCE = Path(limner.__file__).parent
BASE = {"errors", "shapes", "config", "similarity", "files", "threads"}
ALLOWED = {
    "base": {"base"},
    "data": {"base", "data", "datasets"},
    "datasets": {"base", "data", "encoders", "datasets"},
    "encoders": {"base", "encoders"},
    "models": {"base", "encoders", "models"},
    "losses": {"base", "losses"},
    "training": {"base", "data", "datasets", "encoders", "models", "losses", "training"},
    "retrieval": {"base", "data", "retrieval"},
    "evaluation": {"base", "data", "datasets", "retrieval", "evaluation"},
    "apps": {
        "base",
        "data",
        "datasets",
        "encoders",
        "models",
        "losses",
        "training",
        "retrieval",
        "evaluation",
        "apps",
        "api",
    },
}


def part_of(module: str) -> str:
    """Package of a dotted module name: ``limner.data.records`` → ``data``, ``limner.errors`` → ``base``."""
    names = module.split(".")
    if len(names) == 1:
        return "root"
    return "base" if names[1] in BASE else names[1]


def limner_imports(path: Path) -> set[str]:
    """Dotted limner modules that a file imports anywhere, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "limner"}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "limner":
                found |= {f"limner.{alias.name}" for alias in node.names if not alias.name.startswith("__")}
            elif node.module and node.module.startswith("limner."):
                found.add(node.module)
    return found


FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem in BASE)


def name_of(path: Path) -> str:
    return ".".join(("limner", *path.relative_to(SOURCE).with_suffix("").parts))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_imports_only_what_its_package_may(path):
    home = part_of(name_of(path))
    for module in limner_imports(path):
        assert part_of(module) in ALLOWED[home], f"{path.name} ({home}) imports {module}"


def test_the_rule_catches_a_wrong_import(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def f():\n    from limner.apps import cli\n    import limner.training.loop\n")
    assert {part_of(name) for name in limner_imports(wrong)} == {"apps", "training"}
    assert not {"apps", "training"} & ALLOWED["retrieval"]


HEAVY = (
    "torch torchvision lancedb transformers matplotlib sklearn scipy pyarrow PIL open_clip openvino fastapi"
)


@pytest.mark.parametrize("command", ["import limner", 'from limner.apps.cli import run; run(["--help"])'])
def test_a_bare_import_and_help_load_nothing_heavy(command):
    code = f"{command}\nimport sys; print(sorted(set(sys.modules) & set({HEAVY.split()!r})), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_public_names_are_exactly_all():
    assert set(limner.__all__) == {*limner._HOME, "__version__"}
    for name in limner.__all__:
        assert getattr(limner, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Stroy'"):
        _ = limner.Stroy
