"""The submodules of ``megatron.energon``: names of this library under the paths that existing code imports.

Importing one makes it from the tables in ``names.toml``. Type checkers read the stubs next to this file, which
``ENERGON_WRITE_GOLDEN=1 pytest tests/unit/compat/test_megatron_energon.py`` writes from them.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from energon_cli.library import CANONICAL, name_here

__all__ = ["FOLDER", "MODULES", "PACKAGE", "AliasFinder", "install", "object_of", "origin_of", "origins"]

PACKAGE = "megatron.energon"
FOLDER = Path(__file__).parent
_TABLE: dict[str, dict[str, str]] = tomllib.loads((FOLDER / "names.toml").read_text("utf-8"))
MODULES = _TABLE["modules"]
"""The names of each module; ``a=module:b`` is ``b`` of a module by the name ``a``."""

_HOMES = {
    word.partition("=")[0]: (module, word.rpartition("=")[2])
    for module, words in _TABLE["homes"].items()
    for word in words.split()
}


def origins(module: str) -> Iterator[tuple[str, str, str]]:
    """Yield each name of a module, with the module and the name of its object."""
    for word in MODULES[module].split():
        name, _, origin = word.partition("=")
        home, _, original = origin.partition(":")
        yield name, *((home, original) if origin else origin_of(name))


def origin_of(name: str) -> tuple[str, str]:
    """Return the module and the name of the object of a public name."""
    home, original = _HOMES.get(name, (CANONICAL, name))
    return f"{PACKAGE}{home}" if home.startswith(".") else home, original


def object_of(home: str, original: str) -> Any:
    """Import the object with a name in a module."""
    return getattr(import_module(name_here(home)), original)


class _AliasModule(ModuleType):
    """A module whose names, if they are replaced, are replaced where they are defined, too, as tests do that patch."""

    def __setattr__(self, name: str, value: Any) -> None:
        # The first value that was replaced names the defining module; a mock that is replaced in its turn names none.
        places: dict[str, tuple[ModuleType, str]] = vars(self).setdefault("__places__", {})
        old = vars(self).get(name)
        home, defined = sys.modules.get(getattr(old, "__module__", None) or ""), getattr(old, "__name__", name)
        if name not in places and home not in (None, self) and old is not None and vars(home).get(defined) is old:
            places[name] = home, defined
        if name in places:
            setattr(*places[name], value)
        super().__setattr__(name, value)


class AliasFinder(MetaPathFinder, Loader):
    """Finds the modules of the table, and makes them."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        module = fullname.removeprefix(f"{PACKAGE}.")
        if module == fullname or module not in MODULES:
            return None
        folder = FOLDER.joinpath(*module.split("."))
        spec = ModuleSpec(fullname, self, origin=__file__)
        if folder.is_dir() or any(name.startswith(f"{module}.") for name in MODULES):  # a package
            spec.submodule_search_locations = [str(folder)]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _AliasModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        names = {
            name: object_of(home, original)
            for name, home, original in origins(module.__name__.removeprefix(f"{PACKAGE}."))
        }
        vars(module).update(names, __all__=list(names))

        def submodule(name: str) -> ModuleType:
            """Import a submodule that code for megatron-energon uses without importing it."""
            if f"{module.__name__}.{name}".removeprefix(f"{PACKAGE}.") not in MODULES:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)
            return import_module(f"{module.__name__}.{name}")

        vars(module)["__getattr__"] = submodule


def install() -> None:
    """Add the finder of these modules to ``sys.meta_path``."""
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
