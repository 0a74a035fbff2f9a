import os
import sys
from types import ModuleType

from loader.storage.epath import EPath
from loader.storage.urls import VERSIONS_VARIABLE

__all__ = ["DEFAULT_PROFILE_NAME", "NVDATASET_CACHE_DIR", "RESERVED_POSIX_PROFILE_NAME", "EPath"]

DEFAULT_PROFILE_NAME = RESERVED_POSIX_PROFILE_NAME = EPath("/").profile
NVDATASET_CACHE_DIR = EPath(os.environ[VERSIONS_VARIABLE]) if os.environ.get(VERSIONS_VARIABLE) else None
"""Folder of the datasets at ``dss://`` URLs; code may set it."""


class _Module(ModuleType):
    """Module that keeps its folder of datasets in the environment, which worker processes inherit."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == VERSIONS_VARIABLE:
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = str(value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Module
