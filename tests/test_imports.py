"""Who may import whom, read from the syntax trees, and what a bare import may load."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import limner

pytestmark = pytest.mark.slow

SOURCE = Path(limner.__file__).parent
DOOR = {"library"}
"""The one door to the product, which stands at the top of the package and above its rooms."""
BASE = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"} - DOOR
LEAVES = {"text", "pictures", "encoders", "nn", "losses"}
PRODUCT = {"text", "pictures", "encoders", "store", "describe", "match", "export"}
LEARNED = {"datasets", "training", "scenes", "systems", "worlds"}
WHOLE = LEAVES | PRODUCT | LEARNED | {"evaluation", "runs", "paper", "door"}
ALLOWED = {
    "base": set(),
    "text": set(),
    "pictures": set(),
    "encoders": {"pictures"},
    "store": {"pictures", "encoders"},
    "scale": {"pictures", "encoders", "store"},
    "describe": {"pictures", "encoders", "store"},
    "match": {"text", "pictures", "encoders", "store"},
    "export": {"text", "pictures"},
    "door": PRODUCT,
    "server": set(),
    "studio": PRODUCT | {"door", "server"},
    "cli": PRODUCT | {"door", "server", "studio"},
    "research": {"cli"},
    "nn": {"encoders"},
    "losses": set(),
    "datasets": {"text", "pictures", "encoders"},
    "training": LEAVES | {"datasets"},
    "scenes": LEAVES | {"datasets", "training"},
    "systems": LEAVES | {"datasets", "training", "scenes"},
    "worlds": LEAVES | {"datasets", "training", "scenes"},
    "evaluation": LEAVES | LEARNED | {"store", "match"},
    "runs": LEAVES | LEARNED | {"store", "match", "evaluation"},
    "paper": LEAVES | LEARNED | PRODUCT | {"evaluation", "runs"},
    "study": WHOLE | {"server"},
    "research.api": WHOLE,
    "research.cli": WHOLE | {"server", "study", "studio", "research.api", "cli"},
}
"""Room → the rooms below it that it may use, besides itself and the base.

The rooms from ``research`` on are those of `limner.research`, which no room of the product may use.
"""


def room_of(module: str) -> str:
    """Room of a dotted module name: ``limner.text.markdown`` → ``text``, ``limner.errors`` → ``base``."""
    names = module.split(".")
    if len(names) == 1:
        return "root"
    if names[1] == "research":
        own = names[2] if len(names) > 2 else "research"
        return f"research.{own}" if own in ("cli", "api") else own
    return "door" if names[1] in DOOR else "base" if names[1] in BASE else names[1]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def limner_imports(path: Path) -> set[str]:
    """Dotted limner modules that a file imports anywhere, also inside functions."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "limner"}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "limner":
                found |= {f"limner.{alias.name}" for alias in node.names if not alias.name.startswith("__")}
            elif node.module and node.module.startswith("limner."):
                found.add(node.module)
    return found


def name_of(path: Path) -> str:
    return ".".join(("limner", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


FILES = {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}
CHECKED = [name for name in FILES if name.count(".") and name != "limner.__main__"]


def test_a_file_imports_only_what_its_room_may():
    wrong = {}
    for name in CHECKED:
        home = room_of(name)
        if found := {room_of(one) for one in limner_imports(FILES[name])} - ALLOWED[home] - {home, "base"}:
            wrong[name] = found
    assert wrong == {}


def test_the_rule_catches_a_wrong_import(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def f():\n    from limner.cli import main\n    import limner.research.training.loop\n")
    assert {room_of(name) for name in limner_imports(wrong)} == {"cli", "training"}
    assert not {"cli", "training"} & ALLOWED["store"]


def test_no_modules_import_each_other():
    edges = {}
    for name, path in FILES.items():
        found = set()
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom):
                wanted = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= (wanted & FILES.keys()) or {node.module}
        edges[name] = found & FILES.keys() - {name}
    while leaves := {name for name, wanted in edges.items() if not wanted & edges.keys()}:
        edges = {name: wanted for name, wanted in edges.items() if name not in leaves}
    assert not edges


TRAINING = """
import sys
from limner.research.datasets.pairs import data_set
from limner.research.systems.base import system
system("cmcm"), data_set("picturebook")
import limner.research.cli.train, limner.research.runs.train, limner.research.training.tensorboard
print(*sys.modules)
import limner.research.runs.measure
data_set("clue-tsv")
print(*sys.modules)
sys.modules["matplotlib"] = None
from limner.cli.main import run
sys.exit(run(["figure", "cmcm-5", "--runs", ".", "--to", "x.pdf"]))
"""


def test_training_on_drawn_pictures_loads_neither_encoders_nor_other_systems_and_what_lacks_is_one_line():
    """One process for all: it takes seconds to import torch."""
    done = subprocess.run([sys.executable, "-c", TRAINING], capture_output=True, text=True, check=False)
    training, measuring = (set(line.split()) for line in done.stdout.splitlines())
    unused = {
        "tensorboard",
        "limner.encoders.catalogue",
        "limner.encoders.openvino",
        "limner.pictures.decode",
        "limner.research.datasets.features",
        "limner.research.datasets.mixture",
        "limner.research.evaluation.choice",
        "limner.research.evaluation.uncertainty",
    }
    assert not training & unused
    rooms = ("limner.research.systems.", "limner.research.datasets.sets.", "limner.store", "limner.match")
    own = {"systems.base", "systems.cmcm", "datasets.sets.clue"}
    assert {name for name in measuring if name.startswith(rooms)} == {f"limner.research.{one}" for one in own}
    assert done.returncode == 1
    assert done.stderr == "limner: matplotlib is not installed; run: pip install 'limner[research]'\n"


HEAVY = (
    "torch torchvision lance transformers matplotlib sklearn scipy pyarrow PIL open_clip openvino fastapi"
    " numpy pydantic filelock concurrent.futures limner.files"
)


TRAINS = "torch limner.research.training.loop limner.research.datasets.sets limner.encoders.catalogue"


def test_a_bare_import_and_help_load_nothing_heavy_and_a_table_of_results_nothing_that_trains():
    code = (
        "import sys; old = set(sys.modules); import limner; print(*set(sys.modules) - old, file=sys.stderr)\n"
        "from limner.cli.main import run; run(['--help'])\n"
        f"print(*set(sys.modules) & set({HEAVY.split()!r}), file=sys.stderr); run(['table', 'cmcm-5'])\n"
        f"print(*set(sys.modules) & set({TRAINS.split()!r}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    bare, heavy, cells, trains = done.stderr.splitlines()
    assert {name.partition(".")[0] for name in bare.split()} <= {"importlib", "limner", "warnings"}
    assert "limner.library" not in bare.split()
    assert heavy == trains == ""
    assert "have no result" in cells


def test_public_names_are_exactly_all():
    assert set(limner.__all__) == {*limner._HOME, "__version__", "read"}
    for name in limner.__all__:
        assert getattr(limner, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Stroy'"):
        _ = limner.Stroy


PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# The lack of these the command line says, wherever they are imported.
RESEARCH = {re.match(r"\w+", one)[0] for one in PROJECT["optional-dependencies"]["research"]}
RESEARCH -= {"limner", "scikit", "scipy"}


def guarded(tree: ast.Module) -> set[ast.AST]:
    """Everything in a tree that runs only below ``with installed(…, RESEARCH)`` or for the type checker."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        checks = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        asks = isinstance(node, ast.With) and re.fullmatch(
            r"installed\('[\w-]+', RESEARCH\)", ast.unparse(node.items[0].context_expr)
        )
        if checks or asks:
            found |= {inner for statement in node.body for inner in ast.walk(statement)}
    return found


def packages(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    return {node.module.partition(".")[0]} if isinstance(node, ast.ImportFrom) and node.module else set()


def test_a_package_of_research_is_imported_only_where_its_lack_is_said():
    met = set()
    for name, path in FILES.items():
        tree = tree_of(path)
        free = guarded(tree)
        for node in ast.walk(tree):
            used = packages(node) & RESEARCH
            met |= used
            assert not used or node in free, f"{name}:{node.lineno} imports {used}"
    assert met == RESEARCH, "a package of the extra that nothing imports"


def test_every_module_of_the_product_loads_without_packages_of_research():
    """For every format that they write; its commands run so in tests/test_without_torch.py."""
    modules = [
        name for name in FILES if name != "limner.__main__" and not name.startswith("limner.research")
    ] + ["limner.research.cli.demo"]
    code = (
        f"import importlib, sys\nfor name in {sorted(RESEARCH)}: sys.modules[name] = None\n"
        f"sys.modules.pop('torch', None)\nfor name in {modules}: importlib.import_module(name)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
