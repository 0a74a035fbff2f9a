"""Versions of this library, Python and the packages that it uses."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from importlib import metadata

from ...version import __version__

_DISTRIBUTION = "energon-toolkit"
_DEVELOPMENT = frozenset(("dev", "docs", "test"))
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LOWEST = re.compile(r">=\s*([0-9.]+)")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The installation.

    Attributes:
        toolkit: Version of this library.
        python: Version of Python.
        required: Version of each package that this library needs; None if it is missing.
        outdated: Packages of a version that is too low, each with the lowest one that works.
        extras: Extras of this library, each with the packages of it that are missing.
    """

    toolkit: str
    python: str
    required: dict[str, str | None]
    outdated: dict[str, str]
    extras: dict[str, tuple[str, ...]]


def read_packages(distribution: str = _DISTRIBUTION) -> Installed:
    """Return the versions of a distribution and of the packages that it requires, without importing any."""
    required: dict[str, str | None] = {}
    outdated: dict[str, str] = {}
    extras: dict[str, list[str]] = {}
    try:
        requirements = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:  # run from its source
        requirements = []
    for line in requirements:
        specifier, _, marker = line.partition(";")
        found = _NAME.match(specifier)
        if found is None:
            continue
        name = found[0]
        version = _version(name)
        extra = _EXTRA.search(marker)
        if extra is None:
            required[name] = version
        elif extra[1] in _DEVELOPMENT:
            continue
        elif version is None:
            extras.setdefault(extra[1], []).append(name)
        else:
            extras.setdefault(extra[1], [])
        lowest = _LOWEST.search(specifier)
        if version is not None and lowest is not None and _numbers(version) < _numbers(lowest[1]):
            outdated[name] = lowest[1]
    return Installed(
        toolkit=__version__,
        python=platform.python_version(),
        required=required,
        outdated=outdated,
        extras={extra: tuple(missing) for extra, missing in extras.items()},
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, for comparison.

    >>> _numbers("2.10.0+cu128"), _numbers("2.4")
    ((2, 10, 0), (2, 4))
    """
    return tuple(int(number) for number in re.match(r"\d*(?:\.\d+)*", version)[0].split(".") if number)  # type: ignore[index]
