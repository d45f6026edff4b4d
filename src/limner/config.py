"""Strict records, and settings from TOML files and ``key=value`` overrides.

A misspelt key or a value of the wrong type is an error of one line that names the setting and the nearest
key.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from limner.errors import ConfigError, unknown


class Record(BaseModel):
    """Base of all records and settings: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


C = TypeVar("C", bound=BaseModel)
MOST = 2**63
"""Limit of integers: 64 bits."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a TOML file.

    Raises:
        ConfigError: the file is missing, unreadable or not TOML; the message has line and column.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except ValueError as error:  # also raised for numbers with too many digits
        reason = str(error).partition(";")[0]
        raise ConfigError(f"{path}: not valid TOML ({reason}); correct that line") from error
    except RecursionError:
        raise ConfigError(
            f"{path}: values nested too deeply; expected tables of settings; flatten it"
        ) from None


def build(
    model: type[C],
    values: dict[str, Any],
    where: str,
    overrides: Sequence[str] = (),
    context: Mapping[str, Any] | None = None,
) -> C:
    """Build settings from plain values and ``key=value`` overrides.

    Args:
        model: the settings class.
        values: nested plain values, as read from TOML.
        where: file or option from which the values come, for messages.
        overrides: overrides such as ``"train.lr=2e-4"``; a value that is not valid TOML is a string.
        context: context for validators of the class.
    Raises:
        ConfigError: a key is unknown or a value is wrong; the message names the first.
    """
    given = dict(values)
    for override in overrides:
        _assign(given, override)
    for key, value in flat(given).items():
        numbers = value if isinstance(value, list) else [value]
        if any(isinstance(one, int | float) and not abs(one) < MOST for one in numbers):
            raise ConfigError(f"{where}: setting {key!r}: expected a number between -2^63 and 2^63")
    try:
        return model.model_validate(given, context=context)
    except ValidationError as error:
        raise ConfigError(f"{where}: {_first_problem(model, error)}") from error


def load(model: type[C], path: Path, overrides: Sequence[str] = ()) -> C:
    """Load settings from a TOML file; see `build`."""
    return build(model, read_toml(path), str(path), overrides)


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested values: tables are joined, and values of `over` win."""
    both = dict(under)
    for key, value in over.items():
        inner = both.get(key)
        both[key] = (
            merged(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
        )
    return both


def _assign(values: dict[str, Any], override: str) -> None:
    """Set one ``a.b=value`` in nested values; changed tables are copied."""
    key, equals, text = override.partition("=")
    *tables, name = key.strip().split(".")
    if not equals or not name:
        raise ConfigError(f"--set {override!r}: expected key=value, such as pair_weight=0.5")
    for table in tables:
        inner = values.get(table, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override!r}: {table!r} is a value, not a table of settings")
        values[table] = dict(inner)
        values = values[table]
    values[name] = _value(text.strip())


def _value(text: str) -> Any:  # noqa: ANN401  (any TOML value)
    """Parse a TOML value from the command line; a bare word is a string."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text
    except ValueError as error:
        raise ConfigError(
            f"{text[:40]}…: {str(error).partition(';')[0]}; expected a smaller number"
        ) from None
    except RecursionError:
        raise ConfigError(f"{text[:40]!r}: nested too deeply; expected one value") from None


def _first_problem(model: type[BaseModel], error: ValidationError) -> str:
    """First of pydantic's errors, as one line with a hint."""
    problem = error.errors()[0]
    location = [str(part) for part in problem["loc"]]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if problem["type"] == "extra_forbidden":
        return unknown("setting", ".".join(location), _keys(model, location[:-1])) + more
    told = problem["msg"].removeprefix("Value error, ")
    if not location:  # settings that contradict each other
        return f"{told}{more}"
    return f"setting {'.'.join(location)!r}: {told}, found {problem['input']!r}{more}"


def _keys(model: type[BaseModel], tables: Sequence[str]) -> list[str]:
    """Dotted names of the settings in the same table as the unknown one."""
    inner: Any = model
    for table in tables:
        field = _fields(inner).get(table)
        inner = field.annotation if field else None
    prefix = "".join(f"{table}." for table in tables)
    return [prefix + name for name in _fields(inner)]


def _fields(model: object) -> Mapping[str, FieldInfo]:
    return model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else {}


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested values to dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


_NAMED = 5


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """List the settings that differ, with both values: ``loss.margin was 0.1, now 0.2``.

    Args:
        before: nested plain values, with the settings of a run under ``config``.
        now: current values in the same form. Values derived from settings are listed only if no setting
            differs.
    """
    old, new = flat(before), flat(now)
    changed = {
        key: f"was {_short(old.get(key))}, now {_short(new.get(key))}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    }
    own = {key.rpartition("config.")[2]: values for key, values in changed.items() if "config." in key}
    told = [f"{key} {values}" for key, values in (own or changed).items()]
    more = [f"and {len(told) - _NAMED} more"] if len(told) > _NAMED else []
    return "; ".join([*told[:_NAMED], *more])


def _short(value: object) -> str:
    """Value in at most 40 characters."""
    text = "not set" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
