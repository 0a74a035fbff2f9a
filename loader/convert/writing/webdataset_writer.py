"""The writer module of webdataset, without the rest of the package.

``import webdataset`` imports torch, which takes seconds and 150 MB in each process; the module ``webdataset.writer``
needs neither.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

_PACKAGE = "_energon_webdataset"


def webdataset_writer() -> Any:
    """Return the module ``webdataset.writer``, with ``TarWriter`` and the encoders by extension.

    Raises:
        ImportError: webdataset is not installed.
    """
    if _PACKAGE not in sys.modules:
        spec = importlib.util.find_spec("webdataset")
        if spec is None or spec.submodule_search_locations is None:
            raise ImportError("webdataset is not installed", name="webdataset")
        package = ModuleType(_PACKAGE)
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules[_PACKAGE] = package  # its modules import each other relatively
    return importlib.import_module(f"{_PACKAGE}.writer")
