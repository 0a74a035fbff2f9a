"""``megatron.energon``: this library under the name by which existing training code imports it.

Every name and every submodule re-exports the objects of ``loader``, so both packages can be imported in one program.
``megatron`` itself has no files: it is a namespace package that megatron-core shares.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from energon_cli.installation import check_alias
from energon_cli.library import name_here

from .alias_modules import MODULES, install, object_of, origin_of

check_alias()
install()

# Imported here so that `energon.edataclass` is the decorator: a later import of the submodule cannot replace it.
from .edataclass import edataclass as edataclass  # noqa: E402

# Code for megatron-energon chooses between versions by it.
__version__ = "7.4.1"

if TYPE_CHECKING:
    from loader import *  # noqa: F403 - exactly the names of `loader`
    from loader.version import __version__ as __toolkit_version__
else:
    # The program may have another `loader`.
    _NAMES = import_module(name_here("loader")).__all__
    nearest_hint = import_module(name_here("loader.format.documents.messages")).nearest_hint
    __toolkit_version__ = import_module(name_here("loader.version")).__version__

    # Without the class that needs Lightning: `import *` must not import it.
    __all__ = [name for name in _NAMES if name != "MegatronDataModule"]

    _SUBMODULES = frozenset(name.partition(".")[0] for name in MODULES)

    def __getattr__(name: str) -> Any:
        if name in _NAMES:
            value = object_of(*origin_of(name))
        elif name in _SUBMODULES:  # code for megatron-energon uses submodules without importing them
            value = import_module(f".{name}", __name__)
        else:
            hint = "" if name.startswith("_") else nearest_hint(name, (*_NAMES, *_SUBMODULES))
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}", name=name, obj=None)
        globals()[name] = value  # later uses do not call __getattr__
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_NAMES, *_SUBMODULES})
