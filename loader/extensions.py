"""Objects that installed packages add to this library, found by their entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from .errors import ConfigError, error_text

Group = Literal["sources", "readers", "engines", "packers"]
"""What packages add: sources and readers of ``energon import``, engines of all commands with tasks, packers
of training runs."""


def extension_names(group: Group) -> list[str]:
    """Return the names of the extensions that are installed, ascending."""
    return sorted({point.name for point in _points(group)})


def load_extension(group: Group, name: str) -> Any | None:
    """Return the object that a package registers under a name; None if no package does.

    Raises:
        ConfigError: Two packages register the name, or the object cannot be loaded.
    """
    points = [point for point in _points(group) if point.name == name]
    if len(points) > 1:
        packages = " and ".join(sorted(point.dist.name if point.dist else "?" for point in points))
        raise ConfigError(f"{packages} both add {name!r} to the {group}", hint="uninstall one of them")
    if not points:
        return None
    try:
        return points[0].load()
    except Exception as error:
        package = points[0].dist.name if points[0].dist else points[0].value
        raise ConfigError(
            f"{name!r}, which the package {package} adds to the {group}, cannot be loaded: {error_text(error)}",
            at=points[0].value,
            hint=f"repair it, or run: pip uninstall {package}",
        ) from error


def _points(group: Group) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=f"energon_toolkit.{group}"))
