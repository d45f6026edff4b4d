"""``docs/promises.md``: each promise names a test that exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
PROMISE = re.compile(r"\|(?P<words>[^|]+)\|(?P<tests>[^|]+)\|")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> list[tuple[str, list[tuple[str, str]]]]:
    """Every promise with the files and names of its tests."""
    lines = (HOME / "docs" / "promises.md").read_text(encoding="utf-8").splitlines()
    found = [match for line in lines if (match := PROMISE.fullmatch(line.strip()))]
    return [
        (row["words"].strip(), TEST.findall(row["tests"]))
        for row in found
        if row["words"].strip() not in {"Promise", "---"}
    ]


@cache
def functions(file: str) -> set[str]:
    """Names of all functions of a file."""
    tree = ast.parse((HOME / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.slow
def test_each_promise_has_its_test() -> None:
    promises = rows()
    assert promises
    assert [words for words, tests in promises if not tests] == []
    for words, tests in promises:
        for file, name in tests:
            assert name in functions(file), f"{words}: {file} has no {name}"
    assert len({words for words, _ in promises}) == len(promises)
