"""Load multimodal training data: every name a training script imports.

The names are listed once, in ``__init__.pyi``. Each is imported on first use (PEP 562), so a program that only needs
the exceptions imports neither torch nor numpy.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import lazy_loader

_import, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _import(name)
    except ModuleNotFoundError:
        from .errors import torch_needed

        with torch_needed():
            raise
    except AttributeError:
        if name in __all__:
            raise
    message = f"module {__name__!r} has no attribute {name!r}{_guess(name)}"
    raise AttributeError(message, name=name, obj=None)  # without the module, Python prints no guess of its own


def _guess(name: str) -> str:
    """Return the end of a message about a misspelt name; empty if none is similar."""
    from .format.documents.messages import nearest_hint

    return "" if name.startswith("_") else nearest_hint(name, __all__)


class _Spelling:
    """The last finder of modules. It finds none, but guesses what ``from loader import name`` misspells.

    Python looks for a module of the name if the package does not have it.
    """

    def find_spec(self, fullname: str, *_: object) -> None:
        package, _, name = fullname.rpartition(".")
        hint = _guess(name) if package in (__name__, "megatron.energon") else ""
        if hint:
            raise ImportError(f"cannot import name {name!r} from {package!r}{hint}", name=package)


sys.meta_path.append(_Spelling())

if not (find_spec("lightning") or find_spec("pytorch_lightning")):
    # `import *` must not import the class; importing it by name raises an error that names the package to install.
    __all__.remove("MegatronDataModule")  # noqa: PYI056 - type checkers read the stub


def __dir__() -> list[str]:
    return list(__all__)
