"""The names of this library's modules: in this process, and in what is written, logged and compared."""

from __future__ import annotations

CANONICAL = "loader"
"""The name in all that is written: states, documents, journals, and the names of loggers."""
_FREE = "energon_toolkit"
"""The name that no program has for a module of its own, also accepted in documents."""
ROOT = __name__.partition(".")[0]
"""The name in this process: the canonical one, or the free one where the program has another ``loader``."""


def is_own(module: str) -> bool:
    """Return True if a module of this process, by its name, belongs to this library.

    >>> is_own(__name__), is_own("loaders"), is_own("megatron.energon")
    (True, False, False)
    """
    return f"{module}.".startswith(f"{ROOT}.")


def canonical_name(module: str) -> str:
    """Return the name under which a module of this process is written.

    >>> canonical_name(f"{ROOT}.errors"), canonical_name("my_code")
    ('loader.errors', 'my_code')
    """
    return f"{CANONICAL}{module.removeprefix(ROOT)}" if is_own(module) else module


def names_library(written: str) -> bool:
    """Return True if a module's name that is written in a document names this library.

    >>> names_library("energon_toolkit"), names_library("loader.errors"), names_library("my_code")
    (True, True, False)
    """
    return f"{written}.".startswith((f"{CANONICAL}.", f"{_FREE}."))


def name_here(written: str) -> str:
    """Return the name in this process of a module that is written in a document.

    >>> name_here("loader.errors") == name_here("energon_toolkit.errors") == f"{ROOT}.errors"
    True
    """
    _, dot, rest = written.partition(".")
    return f"{ROOT}{dot}{rest}" if names_library(written) else written
