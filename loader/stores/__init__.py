"""File stores, which read files by name for samples, and cache pools, which read them ahead."""

from __future__ import annotations

from ..samples.decoding.decoder import FileStoreDecoder
from .aux_store import PrimaryFileStore, open_aux_store
from .cache_pool import CachePool, DirectLazy, Lazy, MockLazy, NoCachePool
from .dataset_file_store import DatasetFileStore
from .decode_file_store import DecodeFileStore
from .file_store import FileStore, MissingFileError, add_source
from .file_store_cache_pool import CacheFileLazy, FileCacheLazy, FileStoreCachePool
from .record_file_stores import BinIdxFileStore, JsonlFileStore
from .system_file_store import SystemFileStore

__all__ = [
    "BinIdxFileStore",
    "CacheFileLazy",
    "CachePool",
    "DatasetFileStore",
    "DecodeFileStore",
    "DirectLazy",
    "FileCacheLazy",
    "FileStore",
    "FileStoreCachePool",
    "FileStoreDecoder",
    "JsonlFileStore",
    "Lazy",
    "MissingFileError",
    "MockLazy",
    "NoCachePool",
    "PrimaryFileStore",
    "SystemFileStore",
    "add_source",
    "open_aux_store",
]
