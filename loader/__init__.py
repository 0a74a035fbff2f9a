"""Load multimodal training data: every name a training script imports.

The names are listed once, in ``__init__.pyi``. Each is imported on first use (PEP 562), so a program that only needs
the exceptions imports neither torch nor numpy.
"""

from __future__ import annotations

from importlib.util import find_spec

import lazy_loader

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)

if not (find_spec("lightning") or find_spec("pytorch_lightning")):
    # `import *` must not import the class; importing it by name raises an error that names the package to install.
    __all__.remove("MegatronDataModule")  # noqa: PYI056 - type checkers read the stub


def __dir__() -> list[str]:
    return list(__all__)
