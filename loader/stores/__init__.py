"""Files found by name beside the samples: auxiliary stores and cache pools."""

from __future__ import annotations

from ..samples.file_store_decoder import FileStoreDecoder
from .aux_store import open_aux_store
from .cache_pool import CachePool
from .dataset_file_store import DatasetFileStore
from .decode_file_store import DecodeFileStore
from .file_store import FileStore, add_source
from .file_store_cache_pool import FileCacheLazy, FileStoreCachePool
from .lazy import DirectLazy, Lazy, MockLazy
from .missing_file import MissingFileError
from .no_cache_pool import NoCachePool
from .primary_file_store import PrimaryFileStore
from .system_file_store import SystemFileStore

__all__ = [
    "CachePool",
    "DatasetFileStore",
    "DecodeFileStore",
    "DirectLazy",
    "FileCacheLazy",
    "FileStore",
    "FileStoreCachePool",
    "FileStoreDecoder",
    "Lazy",
    "MissingFileError",
    "MockLazy",
    "NoCachePool",
    "PrimaryFileStore",
    "SystemFileStore",
    "add_source",
    "open_aux_store",
]
