"""Engines by name: built in, or entry points of installed packages."""

from __future__ import annotations

from ..errors import ConfigError
from ..extensions import extension_names, load_extension
from .dask_executor import DaskEngine
from .ray_executor import RayEngine
from .run import Engine

_BUILT_IN = {"processes": Engine, "ray": RayEngine, "dask": DaskEngine}


def named_engine(name: str) -> type[Engine]:
    """Return the engine of a name.

    Raises:
        ConfigError: There is none, or it cannot be loaded.
    """
    engine: type[Engine] | None = _BUILT_IN.get(name) or load_extension("engines", name)
    if engine is None:
        raise ConfigError(f"expected an engine of {', '.join(_names())}, found {name!r}")
    return engine


def engines_with(trait: str) -> list[str]:
    """Return the names of engines with a class attribute that is True."""
    return [name for name in _names() if getattr(named_engine(name), trait)]


def _names() -> list[str]:
    return [*_BUILT_IN, *extension_names("engines")]
