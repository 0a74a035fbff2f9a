"""The name of the library in this process: ``loader``, or ``energon_toolkit`` in a program with another ``loader``.

A process has the library once: as ``energon_toolkit``, and also as ``loader`` if no other file or folder has that name.
This module imports nothing of the library, whose name is not known before.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

CANONICAL = "loader"
FREE = "energon_toolkit"

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), CANONICAL)
_MARKER = "own_names.py"
"""A module that only this library has."""
_IMPORTERS = ("energon_cli.", "megatron.energon.")
"""Packages whose modules import the library by its canonical name."""
_INSTALLING = threading.Lock()
"""Held while a finder is added, and never while a module is imported: two finders would ask each other without end."""


def library_name() -> str:
    """Return the name of the library in this process, and load it if it is the canonical one.

    The free name cannot become another module's, so nothing is loaded here: a thread that imports this package and one
    that imports the library would wait for each other.
    """
    finder = _finder()
    if finder is None and _is_taken():
        finder = _installed(FREE, CANONICAL)
        finder.lend_names()
    return import_module(CANONICAL).__name__ if finder is None else finder.root


def name_here(module: str) -> str:
    """Return the name in this process of a module by its canonical name; other packages have the same."""
    is_ours = f"{module}.".startswith(f"{CANONICAL}.")
    return f"{library_name()}{module.removeprefix(CANONICAL)}" if is_ours else module


def provide() -> None:
    """Replace the module ``energon_toolkit``, whose import calls this, by the library."""
    if library_name() == CANONICAL:
        sys.modules[FREE] = sys.modules[CANONICAL]
        _installed(CANONICAL, FREE).register_loaded()
    elif not _is_library(sys.modules[FREE].__file__):
        _load_as_free()


def _finder() -> _Finder | None:
    return next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)


def _installed(root: str, second: str) -> _Finder:
    """Return the finder of this process, which another thread may have added."""
    with _INSTALLING:
        finder = _finder()
        if finder is None:
            finder = _Finder(root, second)
            sys.meta_path.insert(0, finder)
    return finder


def _is_taken() -> bool:
    """Return True if another file or folder than this library is ``loader``, or would be from the working folder.

    Commands, and workers of clusters, add the working folder to their path later.
    """
    if CANONICAL in sys.modules:
        return not _is_library(getattr(sys.modules[CANONICAL], "__file__", None))
    if os.path.exists(f"{CANONICAL}.py") or (os.path.isdir(CANONICAL) and not _is_library(f"{CANONICAL}/__init__.py")):
        return True
    spec = find_spec(CANONICAL)
    return spec is None or not _is_library(spec.origin) or _namespace_of_program() is not None


def _namespace_of_program() -> ModuleSpec | None:
    """Return the ``loader`` of the program if it is a folder of modules without ``__init__``; a folder of data is none.

    Python takes such a folder only if no other one has an ``__init__``, as this library has.
    """
    ours = os.path.dirname(os.path.realpath(_FOLDER))
    spec = PathFinder.find_spec(CANONICAL, [each for each in sys.path if os.path.realpath(each) != ours])
    folders = (spec and spec.submodule_search_locations) or ()
    return spec if any(name.endswith(".py") for each in folders for name in os.listdir(each)) else None


def _is_library(file: str | None) -> bool:
    """Return True for the ``__init__`` of this library, in any copy: a process has only one."""
    return bool(file) and os.path.isfile(os.path.join(os.path.dirname(str(file)), _MARKER))


def _free_spec() -> ModuleSpec | None:
    return spec_from_file_location(FREE, os.path.join(_FOLDER, "__init__.py"), submodule_search_locations=[_FOLDER])


def _load_as_free() -> None:
    spec = _free_spec()
    if spec is None or spec.loader is None:
        raise ImportError(f"the library is not in {_FOLDER}", name=FREE)
    vars(spec)["_initializing"] = True  # lets other threads wait for the import of this name, as Python does
    sys.modules[FREE] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[FREE])
    vars(spec)["_initializing"] = False


class _Finder(MetaPathFinder):
    """Finds the modules of the library under its second name: each is the module of the first one.

    Attributes:
        root: The name of the library in this process.
        second: Its other name.
    """

    def __init__(self, root: str, second: str) -> None:
        self.root = root
        self.second = second

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's
    ) -> ModuleSpec | None:
        package, dot, rest = fullname.partition(".")
        if package == self.root:
            if fullname == FREE:
                return _free_spec()
            return self._registered(self._others(fullname, path)) if dot and self._is_alias() else None
        if fullname.startswith(_IMPORTERS):
            return _renamed(self._others(fullname, path)) if self.root == FREE else None
        if package != self.second:
            return None
        # The package itself may be the program's; a module below is ours if its parent is.
        if not dot:
            if (theirs := self._theirs(fullname, path)) is not None:
                self.lend_names()
                return theirs
            self.register_loaded()
        parent = fullname.rpartition(".")[0]
        if dot and not self._is_alias() and not isinstance(sys.modules.get(parent), _Lent):
            return None
        name = f"{self.root}{dot}{rest}"
        try:
            module = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            return None  # then Python's own error names the module as the program does
        sys.modules.pop(fullname, None)  # or Python would take the module's own spec, and load it once more
        return ModuleSpec(fullname, _Known(module))

    def lend_names(self) -> None:
        """Lend the program's ``loader`` the modules that it lacks: pickles of other processes may name them."""
        taken = self._theirs(CANONICAL, None)
        if taken is None:
            return
        folders = filter(os.path.isdir, taken.submodule_search_locations or ())
        theirs = {name.partition(".")[0] for folder in folders for name in os.listdir(folder)}
        for child in {name.removesuffix(".py") for name in os.listdir(_FOLDER)} - theirs:
            if child.isidentifier() and not child.startswith("_"):
                sys.modules.setdefault(f"{CANONICAL}.{child}", _Lent(f"{CANONICAL}.{child}"))

    def register_loaded(self) -> None:
        """Let the modules that are loaded be known under the second name, too."""
        for name, module in [*sys.modules.items()]:
            if name.startswith(f"{self.root}."):
                sys.modules[f"{self.second}{name.removeprefix(self.root)}"] = module

    def _is_alias(self) -> bool:
        return sys.modules.get(self.second) is sys.modules.get(self.root)

    def _others(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Return what Python finds without this finder."""
        # Of a copy: another thread may insert a finder, and an iterator would return one finder twice.
        finders = (finder for finder in [*sys.meta_path] if finder is not self and hasattr(finder, "find_spec"))
        return next((spec for finder in finders if (spec := finder.find_spec(fullname, path)) is not None), None)

    def _theirs(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Return what Python finds if it is not of this library, whose editable install adds to any ``loader``."""
        spec = self._others(fullname, path)
        file = (spec and spec.origin) or ""
        if not file.startswith(_FOLDER + os.sep) and not _is_library(file):
            return spec
        return _namespace_of_program() if path is None and self.root == FREE else None

    def _registered(self, spec: ModuleSpec | None) -> ModuleSpec | None:
        """Let a module be known under its second name as soon as it is loaded.

        Later, Python would bind it in its package once more, in place of a function of the same name.
        """
        source: Any = None if spec is None else spec.loader
        if spec is not None and isinstance(source, SourceFileLoader):
            execute, second = source.exec_module, f"{self.second}{spec.name.removeprefix(self.root)}"

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                sys.modules[second] = sys.modules[module.__name__]

            vars(source)["exec_module"] = execute_and_register
        return spec


class _Known(Loader):
    """Returns a module that is loaded under its first name, with its own ``__spec__``."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002 - the protocol's
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _Lent(ModuleType):
    """A module of the library by its canonical name, imported on first use, in a program with another ``loader``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        return getattr(import_module(f"{FREE}{self.__name__.removeprefix(CANONICAL)}"), name)


def _renamed(spec: ModuleSpec | None) -> ModuleSpec | None:
    """Let a module of ours import the library by its free name: ``from loader.errors`` would be the program's."""
    source: Any = None if spec is None else spec.loader
    if isinstance(source, SourceFileLoader):

        def code_of(name: str) -> Any:
            import ast  # most programs have no other `loader`

            tree = ast.parse(source.get_source(name) or "", source.path)
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    node.module = name_here(node.module)
            return compile(tree, source.path, "exec", dont_inherit=True)

        vars(source)["get_code"] = code_of
    return spec
