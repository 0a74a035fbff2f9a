from loader.samples.sample_dataclass import edataclass
from loader.samples.source_info import SourceInfo, add_source_info
from loader.stores.cache_pool import CachePool, Lazy
from loader.stores.file_store import FileStore
from loader.stores.file_store_cache_pool import CacheFileLazy, FileCacheLazy, FileStoreCachePool

from ..fork_hook import ForkMixin

__all__ = [
    "CacheFileLazy",
    "CachePool",
    "FileCacheLazy",
    "FileStore",
    "FileStoreCachePool",
    "ForkMixin",
    "Lazy",
    "SourceInfo",
    "add_source_info",
    "edataclass",
]
