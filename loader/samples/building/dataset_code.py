"""Classes and functions that a dataset names: nothing is imported for one unless the caller trusts it."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from multiprocessing import parent_process
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from ...errors import ConfigError
from ...format.documents.dataset_config import is_own_module
from ...format.documents.messages import did_you_mean
from ..trust import is_trusted, refuse

__all__ = ["MetaFunction", "find_code"]

_NOTHING = object()


def find_code(
    module_name: str,
    name: str,
    *,
    kind: Literal["class", "function"],
    asker: str,
    trust_code: bool,
    at: str | None = None,
) -> Any:
    """Find what a module calls by a name; nobody has checked yet what it is.

    Args:
        module_name: One that is imported already, or else the caller must trust whoever names it.
        name: The class's or function's.
        kind: What is looked for, for messages.
        asker: What names it, for messages: ``"dataset.yaml"``.
        trust_code: Modules may be imported.
        at: Where it is named, for messages.

    Raises:
        TrustError: The module is not imported, or would import the class or function only now, and the caller does not
            trust the dataset.
        ConfigError: There is no such module, importing it fails, or it has nothing of that name.
    """
    module = sys.modules.get(module_name)
    # Asking a module for what it does not have runs its __getattr__, which may import anything (PEP 562).
    asks_nobody = module is not None and (name in vars(module) or "__getattr__" not in vars(module))
    if not (asks_nobody or (module and is_own_module(module_name))) and not is_trusted(trust_code):
        error = refuse(f"{asker} asks to import {module_name} for its {kind} {name}", at=at)
        # A worker that is spawned has not imported what the rank has, unless the script does so where it is imported.
        where = " at the top of your script, which spawned workers import, too" if parent_process() is not None else ""
        before = f"import {module_name} before loading the dataset{where}"
        error.hint = f"{before if module is None else 'name the module that defines it'}; or {error.hint}"
        raise error
    try:
        module = importlib.import_module(module_name)
        found = getattr(module, name, _NOTHING)
    except ImportError as error:
        raise ConfigError(f"{asker} names {module_name}.{name}, but: {error}", at=at) from error
    if found is _NOTHING:
        alike = [known for known, value in vars(module).items() if isinstance(value, type) == (kind == "class")]
        alike = [known for known in alike if callable(getattr(module, known)) and not known.startswith("_")]
        raise ConfigError(f"module {module_name} has no {kind} {name!r}{did_you_mean(name, alike)}", at=at)
    return found


class MetaFunction:
    """A function of a file in ``.nv-meta``, which travels to worker processes by its file and name.

    Args:
        meta_folder: The ``.nv-meta`` folder.
        reference: ``"file.py:function"``, the file relative to that folder.
        trust_code: The caller allows code of the dataset to run.

    Raises:
        TrustError: The caller does not allow it; nothing was run.
        ConfigError: There is no such file or function, or importing the file fails.
    """

    def __init__(self, meta_folder: Path, reference: str, *, trust_code: bool) -> None:
        file, _, self.name = reference.rpartition(":")
        self.path = Path(meta_folder, file).absolute()
        if not is_trusted(trust_code):
            raise refuse(f"dataset.yaml asks to run {self.name}() of {file}", at=str(self.path))
        self._function = self._load()

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __repr__(self) -> str:
        return f"MetaFunction({str(self.path)!r}, {self.name!r})"

    def __getstate__(self) -> tuple[Path, str]:
        return self.path, self.name

    def __setstate__(self, state: tuple[Path, str]) -> None:
        # What is unpickled was trusted when it was made.
        self.path, self.name = state
        self._function = self._load()

    def _load(self) -> Callable[..., Any]:
        module = _import_file(self.path)
        function = getattr(module, self.name, None)
        if not callable(function):
            names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
            raise ConfigError(
                f"there is no function {self.name!r}{did_you_mean(self.name, names)}", file=str(self.path)
            )
        loaded: Callable[..., Any] = function
        return loaded


class _FileLoader(SourceFileLoader):
    """Reads a Python file without leaving a ``__pycache__`` in the dataset."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:  # noqa: ARG002 - the signature is Python's
        return


def _import_file(path: Path) -> ModuleType:
    """Import a file under a name made of its path and content: an edited file is imported anew, another one never."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read this file: {error.strerror}", file=str(path)) from error
    digest = hashlib.sha256(bytes(path) + b"\0" + content).hexdigest()
    name = f"_energon_meta_{path.stem}_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and pickle look classes up by their module's name
    try:
        _FileLoader(name, str(path)).exec_module(module)
    except Exception as error:
        del sys.modules[name]
        found = f"importing this file fails: {type(error).__name__}: {error}"
        raise ConfigError(found, file=str(path)) from error
    return module
