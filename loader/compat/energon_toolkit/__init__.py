"""The library under a name that no program has for a module of its own: importing it gives the library's own module."""

import sys
from typing import Any

# Not `from energon_cli.library`: a thread that holds the lock of the module, and one that imports the package, which
# imports the module, would wait for each other.
from energon_cli import library as _library

_library.provide()


def __getattr__(name: str) -> Any:
    # A thread that waited for the import of another one has this module instead of the library.
    library = sys.modules[__name__]
    if vars(library) is globals():
        raise AttributeError(name)
    return getattr(library, name)
