"""The registry of systems, the only one: a name leads to settings and to what makes a run of them.

A new system adds one line here. It imports no system until one is asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from limner.config import build, read_toml
from limner.errors import ConfigError, unknown
from limner.training.settings import RunConfig


@dataclass(frozen=True)
class System:
    """A system that can be trained.

    Attributes:
        config: class of its settings.
        prepare: (settings, corpus, device=, backbone=) → object with `task`, `corpus` and `saved_with`; also
            takes sentences=, an encoder, where the settings have a true `needs_sentences`.
        load: (folder of a run, device) → (model in evaluation mode, settings).
        fit: of a system without gradients, which has no task for the loop: (settings, corpus, folder,
            validate=, maximise=, report=) → final position; None for all others.
    """

    config: type[RunConfig]
    prepare: Callable[..., Any]
    load: Callable[..., tuple[Any, Any]]
    fit: Callable[..., Any] | None = None


# name → module, class of settings; the module also has `prepare` and `load`, and `fit` where it has no task
_SYSTEMS = {
    "cmcm": ("limner.training.cmcm", "CmcmConfig"),
    "complementary": ("limner.training.complementary", "ComplementaryConfig"),
    "vse": ("limner.training.vse", "VseConfig"),
    "gsda": ("limner.training.gsda", "GsdaConfig"),
    "vrss": ("limner.training.vrss", "VrssConfig"),
    "cnsi": ("limner.training.cnsi", "CnsiConfig"),
    "lda": ("limner.training.lda", "LdaConfig"),
    "dual": ("limner.training.dual", "DualConfig"),
    "base": ("limner.training.base", "BaseConfig"),
    "document": ("limner.training.document", "DocumentConfig"),
}


def names() -> tuple[str, ...]:
    """Systems that exist."""
    return tuple(_SYSTEMS)


def system(name: str) -> System:
    """A system by its name.

    Raises:
        ConfigError: no such system.
    """
    if name not in _SYSTEMS:
        raise ConfigError(unknown("system", name, _SYSTEMS))
    place, settings = _SYSTEMS[name]
    module = import_module(place)
    return System(getattr(module, settings), module.prepare, module.load, getattr(module, "fit", None))


def read_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Settings of a run from a TOML file, which names its system, and ``key=value`` overrides.

    Raises:
        ConfigError: no such file, no or an unknown system, or a wrong setting.
    """
    values = read_toml(path)
    name = values.get("system")
    if not isinstance(name, str):
        raise ConfigError(f"{path}: names no system; write system = 'cmcm' (choices: {', '.join(_SYSTEMS)})")
    return build(system(name).config, values, str(path), overrides)
