import ast
import re
from pathlib import Path

import pytest

import limner
from limner import errors


def test_unknown_names_the_nearest_and_all_choices():
    line = errors.unknown("channel", "captoins", ["labels", "captions"])
    assert line == "unknown channel 'captoins'; did you mean 'captions'? choices: captions, labels"


def test_unknown_without_near_or_choices():
    assert errors.unknown("channel", "zzz", []) == "unknown channel 'zzz'; choices: none"


def test_each_error_is_also_what_a_caller_would_catch():
    for cls in (
        errors.ConfigError,
        errors.DataError,
        errors.ShapeError,
        errors.NumericsError,
        errors.CheckpointError,
    ):
        assert issubclass(cls, errors.LimnerError)
        assert issubclass(cls, ValueError)
    assert issubclass(errors.MissingError, OSError)


# A keyword of Python, or a setting, with its value; typed is "--missing drop", or "--set data.missing=drop".
NOT_TYPED = re.compile(r"(?<!--set )(?<![\w.])[a-z_][\w.]*=(?:'[\w-]+'|[Tt]rue|[Ff]alse|None|\d)")


def raised():
    """File, line and text of every message that an error is raised with; of an f-string the fixed parts."""
    source = Path(limner.__file__).parent
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise):
                parts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                said = "".join(part for part in parts if isinstance(part, str))
                yield f"{path.relative_to(source)}:{node.lineno}", said


@pytest.mark.slow
def test_messages_name_options_and_settings_as_they_are_typed():
    examples = ("expected key=value", "expected key=value,value")  # of what --set and --over take
    found = [
        f"{where}: {said}"
        for where, said in raised()
        if NOT_TYPED.search(said) and not any(one in said for one in examples)
    ]
    assert not found, "\n".join(found)


def test_the_rule_finds_what_is_not_typed():
    assert NOT_TYPED.search("leave its pairs out (missing='drop')")
    assert NOT_TYPED.search("name a run with model.context=true")
    assert not NOT_TYPED.search("add --set data.missing=drop, or pass --missing drop")
