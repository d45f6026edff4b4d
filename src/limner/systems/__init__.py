"""The registry of systems, the only one: a name leads to the module that declares it.

A new system is a module with a `SYSTEM`, and a line here. None is imported until it is asked for.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.config import build, read_toml
from limner.errors import ConfigError, unknown

if TYPE_CHECKING:
    from limner.systems.base import System
    from limner.training.settings import RunConfig

_MODULES = {
    "cmcm": "cmcm",
    "complementary": "complementary",
    "vse": "vse",
    "gsda": "gsda",
    "vrss": "vrss",
    "cnsi": "cnsi",
    "lda": "lda",
    "dual": "dual",
    "base": "base_encoder",
    "document": "document",
}


def names() -> tuple[str, ...]:
    """Systems that exist."""
    return tuple(_MODULES)


def system(name: str) -> "System[Any, Any]":
    """A system by its name.

    Raises:
        ConfigError: no such system.
    """
    if name not in _MODULES:
        raise ConfigError(unknown("system", name, _MODULES))
    found: System[Any, Any] = import_module(f"limner.systems.{_MODULES[name]}").SYSTEM
    return found


def read_config(path: Path, overrides: Sequence[str] = ()) -> "RunConfig":
    """Settings of a run from a TOML file, which names its system, and ``key=value`` overrides.

    Raises:
        ConfigError: no such file, no or an unknown system, or a wrong setting.
    """
    values = read_toml(path)
    name = values.get("system")
    if not isinstance(name, str):
        raise ConfigError(f"{path}: names no system; write system = 'cmcm' (choices: {', '.join(_MODULES)})")
    settings: type[RunConfig] = system(name).settings
    return build(settings, values, str(path), overrides)
