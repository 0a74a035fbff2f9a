"""The library under a name that no program has for a module of its own: importing it gives the library's own module."""

import sys
from typing import Any

from energon_cli.library import provide

provide()


def __getattr__(name: str) -> Any:
    # A thread that waited for the import of another one has this module instead of the library.
    library = sys.modules[__name__]
    if vars(library) is globals():
        raise AttributeError(name)
    return getattr(library, name)
