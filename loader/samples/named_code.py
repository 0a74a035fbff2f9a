"""Classes and functions that a dataset names: nothing is imported for one unless the caller trusts it."""

from __future__ import annotations

import importlib
import sys
from multiprocessing import parent_process
from typing import Any, Literal

from ..errors import ConfigError
from ..format.dataset_config import is_own_module
from ..format.nearest_name import did_you_mean
from .trust import is_trusted, refuse

__all__ = ["find_code"]

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
        error.do = f"{before if module is None else 'name the module that defines it'}; or {error.do}"
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
