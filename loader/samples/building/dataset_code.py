"""Functions of the Python files inside ``.nv-meta``: ``sample_loader.py:sample_loader``."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import ConfigError
from ..format.nearest_name import did_you_mean
from .trust import is_trusted, refuse

__all__ = ["MetaFunction"]


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
