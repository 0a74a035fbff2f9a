"""Whether ``loader`` and ``megatron.energon`` are this library, where other files of these names may be found first.

Nothing of ``loader`` is imported here: it may be a file of the user's.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

__all__ = [
    "InstallationFault",
    "OriginalDistribution",
    "check_alias",
    "find_originals",
    "installation_faults",
    "shadowed_loader",
]

_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""Where ``loader`` and ``energon_cli`` lie; in an installed wheel ``megatron`` too."""

_ALIAS = "megatron.energon"
_ALIAS_FOLDER = os.path.join("megatron", "energon")
_MARK = b"from energon_cli.installation import"
"""What our ``megatron/energon/__init__.py`` has in it, wherever it lies, and no other one."""

_REINSTALL = "pip install --force-reinstall --no-deps energon-toolkit"
_MEND = f"run 'pip uninstall megatron-energon', then '{_REINSTALL}', since uninstalling removes files that both have"


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalDistribution:
    """An installed ``megatron-energon``, whose modules have the names of our alias.

    Args:
        version: Its version.
        folder: The entry of ``sys.path`` that it is installed in.
        shares_files: Its files lie where ours do.
    """

    version: str
    folder: str
    shares_files: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationFault:
    """What is wrong with the installation.

    Args:
        message: What was found, where, and what to do.
        breaks: ``megatron.energon`` cannot be used before it is mended.
    """

    message: str
    breaks: bool


def shadowed_loader() -> str | None:
    """Say which file or folder is imported as ``loader`` instead of this library.

    Returns:
        What was found, where, and what to do; None where ``loader`` is ours.
    """
    try:
        spec = find_spec("loader")
    except ValueError:  # a module that was put into sys.modules by hand
        spec = None
        if "loader" in sys.modules:
            return _shadow_message(repr(sys.modules["loader"]))
    if spec is None:
        return None  # not installed: what imports it says so
    # A folder without __init__.py has no origin.
    found = spec.origin or next(iter(spec.submodule_search_locations or ()), spec.name)
    own = os.path.join(_OWN_FOLDER, "loader")
    return None if spec.origin and _same(os.path.dirname(found), own) else _shadow_message(found)


def check_alias() -> None:
    """Check what ``megatron.energon`` needs, when it is imported.

    Raises:
        ImportError: ``loader`` is a file of the user's, or another distribution has put its files among ours.

    Warns:
        RuntimeWarning: Another distribution has a ``megatron.energon`` elsewhere on ``sys.path``.
    """
    message = shadowed_loader()
    if message is not None:
        raise ImportError(message, name=_ALIAS)
    for fault in _faults_of_originals(_alias_in_force(), is_ours=True):
        if fault.breaks:
            raise ImportError(fault.message, name=_ALIAS)
        warnings.warn(fault.message, RuntimeWarning, stacklevel=3)


def installation_faults() -> Iterator[InstallationFault]:
    """Yield what keeps ``megatron.energon`` from being this library, or might."""
    alias = _alias_in_force()
    is_ours = alias is not None and _is_ours(alias)
    if alias is None and os.path.isdir(os.path.join(_OWN_FOLDER, _ALIAS_FOLDER)):
        found = f"{_ALIAS} has lost files, as when megatron-energon was uninstalled after it"
        yield _fault(found, at=os.path.join(_OWN_FOLDER, _ALIAS_FOLDER), hint=f"run '{_REINSTALL}'", breaks=True)
    faults = list(_faults_of_originals(alias, is_ours=is_ours))
    yield from faults
    if alias is not None and not is_ours and not faults:
        found = f"{_ALIAS} is that of another package"
        yield _fault(found, at=alias, hint="take it off PYTHONPATH, or import 'loader'", breaks=False)


def _faults_of_originals(alias: str | None, *, is_ours: bool) -> Iterator[InstallationFault]:
    whose = "energon-toolkit's" if is_ours else "that of megatron-energon"
    for original in find_originals():
        name = f"megatron-energon {original.version}"
        if original.shares_files:
            found = f"{name} is installed in the same folder as energon-toolkit, and some files of one are the other's"
            yield _fault(found, at=os.path.join(original.folder, _ALIAS_FOLDER), hint=_MEND, breaks=True)
        else:
            found = f"{name} is installed, too; {_ALIAS} is {whose}: {alias}"
            hint = "use an environment with one of the two, or import 'loader', which is energon-toolkit's in any case"
            yield _fault(found, at=original.folder, hint=hint, breaks=False)


def find_originals() -> Iterator[OriginalDistribution]:
    """Yield each ``megatron-energon`` that is installed on ``sys.path``."""
    for folder in dict.fromkeys(os.path.abspath(entry) for entry in sys.path):
        try:
            names = os.listdir(folder)
        except OSError:
            continue  # a zip file, or an entry that is not there
        for name in sorted(names):
            stem, extension = os.path.splitext(name.lower())
            if extension != ".dist-info" or not stem.startswith("megatron_energon-"):
                continue
            if os.path.exists(os.path.join(folder, name, "METADATA")):  # else it is what an uninstall left
                yield OriginalDistribution(
                    version=stem.partition("-")[2],
                    folder=folder,
                    shares_files=_same(folder, _OWN_FOLDER) and _lists_modules(os.path.join(folder, name, "RECORD")),
                )


def _lists_modules(record: str) -> bool:
    """Tell whether a distribution's list of files has modules in it; that of an editable one has none."""
    try:
        with open(record, encoding="utf-8", errors="replace") as lines:
            return any(line.startswith("megatron/energon/") for line in lines)
    except OSError:
        return os.path.isdir(os.path.join(os.path.dirname(os.path.dirname(record)), _ALIAS_FOLDER))


def _alias_in_force() -> str | None:
    """Find the file that is imported as ``megatron.energon``, without importing it."""
    module = sys.modules.get(_ALIAS)
    if module is not None:
        return module.__file__
    try:
        spec = find_spec(_ALIAS)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin


def _is_ours(alias: str) -> bool:
    try:
        with open(alias, "rb") as file:
            return _MARK in file.read()
    except OSError:
        return False


def _same(path: str, other: str) -> bool:
    if os.path.abspath(path) == other:
        return True  # also in an archive, where there is no file to ask
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _fault(message: str, *, at: str, hint: str, breaks: bool) -> InstallationFault:
    return InstallationFault(message=f"{message}\n  at: {at}\n  hint: {hint}", breaks=breaks)


def _shadow_message(found: str) -> str:
    own = os.path.join(_OWN_FOLDER, "loader")
    return (
        f"the name 'loader' is taken by another file, which is found before the energon library in {own}\n"
        f"  at: {found}\n"
        f"  hint: rename it: it lies beside the script that runs, in the current folder, or on PYTHONPATH"
    )
