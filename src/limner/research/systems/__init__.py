"""The registry of systems, the only one: a name leads to the module of that name, which declares it.

A new system is a module, or a folder, with a `SYSTEM`. None is imported until it is asked for.
"""

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from limner.config import build, merged, read_toml
from limner.errors import ConfigError, unknown
from limner.research.datasets.registry import data_sets, known_set

if TYPE_CHECKING:
    from limner.research.systems.base import System
    from limner.research.training.settings import RunConfig

_SHARED = ("base", "text_side")
"""Modules that declare no system."""


def names() -> tuple[str, ...]:
    """Systems that exist."""
    return tuple(module.name for module in iter_modules(__path__) if module.name not in _SHARED)


def system(name: str) -> "System[Any, Any]":
    """A system by its name.

    Raises:
        ConfigError: the system is unknown.
    """
    if name not in names():
        raise ConfigError(unknown("system", name, names()))
    found: System[Any, Any] = import_module(f"{__name__}.{name}").SYSTEM
    return found


def read_config(path: Path, overrides: Sequence[str] = (), data: str = "") -> "RunConfig":
    """Settings of a run: of a row's file, which names its system, then of a data set, then ``key=value``.

    Args:
        path: TOML file of the row.
        overrides: see `limner.config.build`; another preset rules all that the file does not set otherwise
            than its own preset would.
        data: what the row is trained on: a name or a file, see `overlays`, or a registered data set; "" for
            what `overrides` or the row's file name. A set comes with the overlay of its name, whoever names
            it; without one, or with that of another set, it is a deviation.
    Raises:
        ConfigError: no such file, no or an unknown system, no data set, or a wrong setting.
    """
    values = read_toml(path)
    name = values.get("system")
    if not isinstance(name, str):
        raise ConfigError(f"{path}: names no system; write system = 'cmcm' (choices: {', '.join(names())})")
    settings: type[RunConfig] = system(name).settings
    where = f"{path} with {data}" if data else str(path)
    files = _overlays(path)
    name = data or _given("data.set", overrides) or values.get("data", {}).get("set", "")
    if not name:
        known = ", ".join(sorted({*files, *data_sets()}))
        raise ConfigError(f"{path}: names no data set; add --data NAME (choices: {known})")
    overlay = None
    if name in files or (data and data.endswith(".toml")):
        overlay = overlays(values, path, name, settings.PRESETS)
    elif data and known_set(data):
        values = merged(values, {"data": {"set": data}})
    elif data:
        raise ConfigError(unknown("data", data, {*files, *data_sets()}))
    preset, others = _given("preset", overrides), [one for one in overrides if _key(one) != "preset"]
    return build(settings, settings.resolved(values, preset, overlay), where, others)


def _key(override: str) -> str:
    return override.partition("=")[0].strip()


def _given(key: str, overrides: Sequence[str]) -> str:
    """Last value of a setting among ``key=value`` overrides, or ""."""
    found = [one.partition("=")[2].strip().strip("\"'") for one in overrides if _key(one) == key]
    return found[-1] if found else ""


def overlays(
    values: Mapping[str, Any], row: Path, data: str, presets: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Settings that a data set needs: always under "", or under the name of a preset.

    An overlay is a TOML file with settings for all systems, tables ``[SYSTEM]`` for one system, and inside
    these ``[[SYSTEM.rows]]`` for the rows whose files are listed in ``names``; each goes over those before.
    A table ``[PRESET]``, such as ``[laptop]``, has the same form.

    Args:
        values: values of the row.
        row: its file; overlays lie in a folder ``data`` beside it or one level up.
        data: name of an overlay, or its file. That of a data set has the name of the set.
        presets: by name.
    Raises:
        ConfigError: the overlay's table of the system is not of that form, or it has the name of a registered
            set and is of another.
    """
    file = _overlays(row).get(data, Path(data))
    over = read_toml(file)
    named = over.get("data", {}).get("set", data)
    if data != named and known_set(data):
        raise ConfigError(
            f"{file}: is of the data set {named!r}, and {data!r} is another; name it {named}.toml"
        )
    tables = {name: over.pop(name) for name in presets if isinstance(over.get(name), dict)}
    return {
        name: _for_row(values["system"], row.stem, table, f"{data}: {name}".removesuffix(": "))
        for name, table in {"": over, **tables}.items()
    }


def _for_row(system_name: str, row: str, over: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Settings of an overlay for one row of one system."""
    own = over.get(system_name, {})
    rows = own.get("rows", []) if isinstance(own, dict) else None
    if not isinstance(rows, list) or not all(isinstance(table, dict) and "names" in table for table in rows):
        raise ConfigError(
            f"{where}: {system_name}: expected a table of settings, whose rows are tables with names"
        )
    systems = names()
    whole = {key: value for key, value in over.items() if key not in systems}
    whole = merged(whole, {key: value for key, value in own.items() if key != "rows"})
    for table in rows:
        if row in table["names"]:
            whole = merged(whole, {key: value for key, value in table.items() if key != "names"})
    return whole


def _overlays(row: Path) -> dict[str, Path]:
    """Name → file of the overlays for a row; those beside it win."""
    folders = (row.absolute().parents[1] / "data", row.parent / "data")
    return {file.stem: file for folder in folders for file in sorted(folder.glob("*.toml"))}
