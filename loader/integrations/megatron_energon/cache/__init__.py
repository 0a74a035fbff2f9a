from .base import CachePool, FileStore, FileStoreDecoder, Lazy, MockLazy, PrimaryFileStore
from .file_cache_pool import FileCacheLazy, FileStoreCachePool
from .file_store import DecodeFileStore, SystemFileStore
from .no_cache import DirectLazy, NoCachePool

__all__ = [
    "CachePool",
    "DecodeFileStore",
    "DirectLazy",
    "FileCacheLazy",
    "FileStore",
    "FileStoreCachePool",
    "FileStoreDecoder",
    "Lazy",
    "MockLazy",
    "NoCachePool",
    "PrimaryFileStore",
    "SystemFileStore",
]
