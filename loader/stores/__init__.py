"""Files found by name beside the samples: auxiliary stores and cache pools."""

from __future__ import annotations

from ..samples.file_store_decoder import FileStoreDecoder
from .aux_store import open_aux_store
from .dataset_file_store import DatasetFileStore
from .decode_file_store import DecodeFileStore
from .file_store import FileStore
from .missing_file import MissingFileError
from .primary_file_store import PrimaryFileStore
from .system_file_store import SystemFileStore

__all__ = [
    "DatasetFileStore",
    "DecodeFileStore",
    "FileStore",
    "FileStoreDecoder",
    "MissingFileError",
    "PrimaryFileStore",
    "SystemFileStore",
    "open_aux_store",
]
