import os
import sys
from types import ModuleType

from loader.storage.epath import EPath
from loader.storage.urls import VERSIONS_VARIABLE

__all__ = ["DEFAULT_PROFILE_NAME", "NVDATASET_CACHE_DIR", "RESERVED_POSIX_PROFILE_NAME", "EPath"]

DEFAULT_PROFILE_NAME = RESERVED_POSIX_PROFILE_NAME = EPath("/").profile


class _Module(ModuleType):
    """This module, with a variable that is the environment's: worker processes have it, too."""

    @property
    def NVDATASET_CACHE_DIR(self) -> EPath | None:  # noqa: N802 - the name of megatron-energon
        folder = os.environ.get(VERSIONS_VARIABLE)
        return EPath(folder) if folder else None

    @NVDATASET_CACHE_DIR.setter
    def NVDATASET_CACHE_DIR(self, folder: EPath | None) -> None:  # noqa: N802
        os.environ.pop(VERSIONS_VARIABLE, None)
        if folder is not None:
            os.environ[VERSIONS_VARIABLE] = str(folder)


NVDATASET_CACHE_DIR: EPath | None
sys.modules[__name__].__class__ = _Module
