"""Break limner in small ways, one at a time, and count how many of the breaks a test notices.

Makes: docs/reliability.md (how many small faults the tests detect)

    python benchmarks/mutants.py [--mutants 300] [--seed 0] [--under store] [--coverage FILE]

A file of the package is drawn in proportion to its lines of code, then one place in it: a comparison, a
condition, a sign, a whole number or a returned value is changed, in a copy of the tree. Tests run until one
fails: those that run the function (coverage.py measures once which do), those of its folder first; then slow
ones, of its folder also those that run it in another process. A fault whose tests run into the limit of
processor time does not count as noticed. At the end the tests that failed run without a fault, where none may
fail. See docs/reliability.md.
"""

import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from coverage import CoverageData
from harness import arguments

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.In: ast.NotIn, ast.Is: ast.IsNot,
}  # fmt: skip
COMPARED |= {there: back for back, there in COMPARED.items()}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Mult: ast.Div}
COMPUTED |= {there: back for back, there in COMPUTED.items()}
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*cache", "build", "demo", "dist")
# How long a run may take by the clock: only what waits for something that never comes takes as long.
PATIENCE = 20


def places(tree: ast.Module) -> list[ast.AST]:
    """What can be changed: all but types and strings."""
    typed: set[ast.AST] = set()
    for node in ast.walk(tree):
        types = [getattr(node, name, None) for name in ("annotation", "returns")]
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            types.append(node)
        typed.update(inner for given in types if given for inner in ast.walk(given))
    return [
        node
        for node in ast.walk(tree)
        if node not in typed
        and (
            (isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED)
            or (isinstance(node, ast.BinOp) and type(node.op) in COMPUTED and not _text(node.left))
            or isinstance(node, ast.BoolOp | ast.IfExp)
            or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
            or (isinstance(node, ast.Return) and node.value and ast.unparse(node.value) != "None")
            or (isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value < 1000)
        )
    ]


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def change(node: ast.AST) -> None:
    """Put one fault where the node stands."""
    match node:
        case ast.Compare():
            node.ops[0] = COMPARED[type(node.ops[0])]()
        case ast.BinOp():
            node.op = COMPUTED[type(node.op)]()
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.UnaryOp():
            node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
        case ast.IfExp():
            node.body, node.orelse = node.orelse, node.body
        case ast.Return():
            node.value = ast.Constant(None)
        case ast.Constant():
            node.value += 1


def coverage(root: Path, file: Path | None) -> CoverageData:
    """Which test runs which lines: read from a file, or measured."""
    made = root.parent / "coverage"  # not in the tree, which tests pack
    if not file:
        words = ("-m", "not soak", "-n", "auto", "--cov", "--cov-context=test", "--cov-report=")
        told = _env(root) | {"COVERAGE_FILE": str(made)}
        subprocess.run([sys.executable, "-m", "pytest", *words], cwd=root, env=told, check=True)
    data = CoverageData(str(file or made))
    data.read()
    return data


def tests_of(data: CoverageData, file: Path, node: ast.AST, tree: ast.Module) -> set[str]:
    """Tests that run a node's function, or anything in its file outside of one.

    What a fixture runs may matter to every test of the module.
    """
    first, last = 1, sys.maxsize
    for part in ast.walk(tree):  # inner functions come last
        is_function = isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and part.lineno <= node.lineno <= part.end_lineno:
            first, last = part.body[0].lineno, part.end_lineno
    lines = data.contexts_by_lineno(str(file)).items()
    ran = {one for line, contexts in lines if first <= line <= last for one in contexts if one}
    phases = {tuple(one.rsplit("|", 1)) for one in ran}
    return {test if phase == "run" else test.partition("::")[0] for test, phase in phases}


def judged(root: Path, quick: Sequence[str], slow: Sequence[str], limit_s: int) -> tuple[str, str]:
    """What pytest says of these tests: "noticed" and by which, "lived" or "limit"."""
    words = ("-x", "-rfE", "-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-profile=mutants")
    limited = ("sh", "-c", f'ulimit -t {limit_s}; exec "$@"', "sh")
    for marks, tests in (("not slow and not soak", quick), ("slow", slow)):
        if not tests:
            continue
        (root.parent / "tests").write_text("\n".join(tests), "utf-8")
        run = subprocess.Popen(
            [*limited, sys.executable, "-m", "pytest", *words, "-m", marks, "@../tests"],
            cwd=root,
            env=_env(root),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            told, _ = run.communicate(timeout=PATIENCE * limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
        if run.returncode < 0:
            return "limit", ""
        if run.returncode not in {0, 5}:  # 5: none of these tests has these marks
            failed = re.search(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", told, re.MULTILINE)
            return "noticed", failed[1] if failed else ""
    return "lived", ""


def _env(root: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(root / "src")}


def main() -> int:
    """Run a sample; 1 where fewer than nine of ten were noticed."""
    words = arguments(__doc__)
    words.add_argument("--mutants", type=int, default=300, help="how many to draw")
    words.add_argument("--seed", type=int, default=0, help="of the draw")
    words.add_argument("--under", default="", help="files of the package that begin so, such as store/")
    words.add_argument("--limit", type=int, default=600, help="seconds of processor time for a fault's tests")
    words.add_argument("--coverage", type=Path, help="where pytest-cov has measured this tree before")
    asked = words.parse_args()
    draw = random.Random(asked.seed)  # noqa: S311
    counts, noticed_by = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as work:
        root = shutil.copytree(Path(__file__).parents[1], Path(work) / "tree", ignore=LEFT_OUT)
        top = root / "src" / "limner"
        files = [
            file for file in sorted(top.rglob("*.py")) if str(file.relative_to(top)).startswith(asked.under)
        ]
        trees = {file: text for file in files if places(ast.parse(text := file.read_text("utf-8")))}
        lines = [
            sum(bool(re.match(r"\s*[^\s#]", line)) for line in text.splitlines()) for text in trees.values()
        ]
        ran = coverage(root, asked.coverage)
        for file in draw.choices(list(trees), lines, k=asked.mutants):
            tree = ast.parse(trees[file])
            node = draw.choice(places(tree))
            line, before = node.lineno, ast.unparse(node)
            name = file.relative_to(root)
            folder = Path("tests", name.parent.relative_to("src/limner"))
            near = [str(folder / test.name) for test in (root / folder).glob("test_*.py")]
            tests = sorted(
                tests_of(ran, name, node, tree), key=lambda test: (test.partition("::")[0] not in near, test)
            )
            change(node)
            file.write_text(ast.unparse(ast.fix_missing_locations(tree)), "utf-8")
            found, test = judged(root, tests, [*tests, *near], asked.limit)
            file.write_text(trees[file], "utf-8")
            counts[found] += 1
            noticed_by[test] += 1
            print(f"{found} {file.relative_to(top)}:{line}: {before[:80]!r} {test}", flush=True)
        failed = [test for test in noticed_by if test]
        if judged(root, failed, failed, asked.limit * len(failed) + 1)[0] != "lived" and failed:
            print("of the tests that failed, some fail without a fault too: mend them first")
            return 1
    share = counts["noticed"] / asked.mutants
    print(f"{counts['noticed']} of {asked.mutants} were noticed: {share:.1%};", dict(counts))
    return int(share < 0.9)


if __name__ == "__main__":
    sys.exit(main())
