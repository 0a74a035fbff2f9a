"""Check that the name ``megatron.energon`` imports this library and not other files."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder that contains ``loader`` and ``energon_cli``, and in an installed wheel also ``megatron``."""

_ALIAS = "megatron.energon"
_ALIAS_FOLDER = os.path.join("megatron", "energon")
_MARKER = b"from energon_cli.installation import"
"""A line that only our ``megatron/energon/__init__.py`` contains."""

_SHIM_REQUIREMENT = b"Requires-Dist: energon-toolkit"
"""A line of the metadata of the wheel that ``make shim`` builds, which is named megatron-energon and has no files."""

_REINSTALL = "pip install --force-reinstall --no-deps energon-toolkit"
_REPAIR = f"run 'pip uninstall megatron-energon', then '{_REINSTALL}', because uninstalling removes shared files"


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalDistribution:
    """An installed ``megatron-energon``, whose module names clash with our alias."""

    version: str
    folder: str  # the entry of sys.path that it is installed in
    shares_files: bool  # it is installed over our files


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationFault:
    """A fault of the installation."""

    message: str  # with the location and a hint
    breaks: bool  # megatron.energon is unusable until it is fixed


def check_alias() -> None:
    """Check the installation when ``megatron.energon`` is imported.

    Raises:
        ImportError: Another distribution is installed over our files.

    Warns:
        RuntimeWarning: Another distribution has a ``megatron.energon`` elsewhere on ``sys.path``.
    """
    # An original that shares our files breaks the import; elsewhere on the path, it may only surprise.
    for fault in _faults_of_originals(_alias_origin(), is_ours=True):
        if fault.breaks:
            raise ImportError(fault.message, name=_ALIAS)
        warnings.warn(fault.message, RuntimeWarning, stacklevel=3)


def installation_faults() -> Iterator[InstallationFault]:
    """Yield the faults that keep ``megatron.energon`` from importing this library, and possible ones as warnings."""
    alias = _alias_origin()
    is_ours = alias is not None and _MARKER in _read(alias)
    if alias is None and os.path.isdir(os.path.join(_OWN_FOLDER, _ALIAS_FOLDER)):
        message = f"{_ALIAS} has lost files, probably because megatron-energon was uninstalled after it"
        yield _fault(message, at=os.path.join(_OWN_FOLDER, _ALIAS_FOLDER), hint=f"run '{_REINSTALL}'", breaks=True)
    # The original is installed, too; or another package has its name.
    faults = list(_faults_of_originals(alias, is_ours=is_ours))
    yield from faults
    if alias is not None and not is_ours and not faults:
        message = f"{_ALIAS} belongs to another package"
        yield _fault(message, at=alias, hint="remove it from PYTHONPATH, or import 'energon_toolkit'", breaks=False)


def _faults_of_originals(alias: str | None, *, is_ours: bool) -> Iterator[InstallationFault]:
    whose = "energon-toolkit's" if is_ours else "megatron-energon's"
    for original in find_originals():
        name = f"megatron-energon {original.version}"
        if original.shares_files:
            message = (
                f"{name} is installed in the same folder as energon-toolkit, and they overwrite each other's files"
            )
            yield _fault(message, at=os.path.join(original.folder, _ALIAS_FOLDER), hint=_REPAIR, breaks=True)
        else:
            message = f"{name} is also installed; {_ALIAS} is {whose}: {alias}"
            hint = "install only one of them, or import 'energon_toolkit'"
            yield _fault(message, at=original.folder, hint=hint, breaks=False)


def find_originals() -> Iterator[OriginalDistribution]:
    """Yield each ``megatron-energon`` that is installed on ``sys.path``, without the wheel of ``make shim``."""
    for folder in dict.fromkeys(os.path.abspath(entry) for entry in sys.path):
        try:
            names = os.listdir(folder)
        except OSError:
            continue  # a zip file, or a missing entry
        for name in sorted(names):
            stem, extension = os.path.splitext(name.lower())
            if extension != ".dist-info" or not stem.startswith("megatron_energon-"):
                continue
            metadata = _read(os.path.join(folder, name, "METADATA"))  # empty after an incomplete uninstall
            if metadata and _SHIM_REQUIREMENT not in metadata.splitlines():
                yield OriginalDistribution(
                    version=stem.partition("-")[2],
                    folder=folder,
                    shares_files=_same(folder, _OWN_FOLDER) and _lists_modules(os.path.join(folder, name, "RECORD")),
                )


def _lists_modules(record: str) -> bool:
    """Check whether a distribution's RECORD lists modules; an editable installation lists none."""
    try:
        with open(record, encoding="utf-8", errors="replace") as lines:
            return any(line.startswith("megatron/energon/") for line in lines)
    except OSError:
        return os.path.isdir(os.path.join(os.path.dirname(os.path.dirname(record)), _ALIAS_FOLDER))


def _alias_origin() -> str | None:
    """Find the file that is imported as ``megatron.energon``, without importing it."""
    # The alias is being imported when it checks its installation.
    module = sys.modules.get(_ALIAS)
    if module is not None:
        return module.__file__
    try:
        spec = find_spec(_ALIAS)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _same(path: str, other: str) -> bool:
    if os.path.abspath(path) == other:
        return True  # also inside an archive, where samefile() raises
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _fault(message: str, *, at: str, hint: str, breaks: bool) -> InstallationFault:
    return InstallationFault(message=f"{message}\n  at: {at}\n  hint: {hint}", breaks=breaks)
