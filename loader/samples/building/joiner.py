"""The code that makes one sample of the samples of a join's datasets."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from ...errors import ConfigError
from ...metadataset.documents.leaf_plan import Joiner
from ..trust import is_trusted, refuse
from .dataset_code import find_code

__all__ = ["load_joiner"]

_METHOD = "from_joined"


def load_joiner(joiner: Joiner, *, at: str, trust_code: bool) -> Callable[..., Any]:
    """Find the joiner that a metadataset names.

    Of a module that is imported already, it is taken as it is; to import one, the caller must trust the metadataset.
    Python's own functions need that trust, too: they were not written to be given samples.

    Args:
        joiner: What the metadataset names.
        at: Where, for messages.
        trust_code: Code that the metadataset names may be imported.

    Returns:
        The class's ``from_joined``, or the function: it is called with a sample (or None) of each dataset.

    Raises:
        TrustError: Its module is not imported, or is Python's own, and the caller does not trust the metadataset.
        ConfigError: There is no such module, class or function, or the class has no ``from_joined`` that can be called.
    """
    full_name = f"{joiner.module}.{joiner.name}"
    found = find_code(
        joiner.module,
        joiner.name,
        kind="function" if joiner.is_function else "class",
        asker="the joiner of this join",
        trust_code=trust_code,
        at=at,
    )
    if joiner.is_function:
        return _checked_function(found, full_name, at=at, trust_code=trust_code)
    if not isinstance(found, type):
        raise ConfigError(
            f"{full_name} is no class", at=at, hint="name a function with __function__ in place of __class__"
        )
    method = inspect.getattr_static(found, _METHOD, None)
    if method is None:
        raise ConfigError(
            f"class {full_name} has no {_METHOD}; expected a classmethod that makes one sample of those it is given",
            at=at,
            hint=f"add @classmethod def {_METHOD}(cls, …) to it",
        )
    if not isinstance(method, classmethod | staticmethod):
        raise ConfigError(
            f"{_METHOD} of class {full_name} is no classmethod, so it cannot be called without an object",
            at=at,
            hint="write @classmethod above it",
        )
    joined: Callable[..., Any] = getattr(found, _METHOD)
    return joined


def _checked_function(found: Any, full_name: str, *, at: str, trust_code: bool) -> Callable[..., Any]:
    if isinstance(found, type):
        raise ConfigError(f"{full_name} is a class", at=at, hint="name it with __class__ in place of __function__")
    if not callable(found):
        raise ConfigError(f"{full_name} is no function", at=at, hint="name a function of that module")
    homes = [full_name, str(found.__module__)] if inspect.isroutine(found) else [full_name]
    is_pythons = any(home.partition(".")[0] in sys.stdlib_module_names for home in homes)
    if is_pythons and not is_trusted(trust_code):
        raise refuse(f"the joiner of this join asks to call {full_name}, which is Python's own", at=at)
    function: Callable[..., Any] = found
    return function
