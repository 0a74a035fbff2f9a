from loader.samples.sample_dataclass import edataclass
from loader.samples.source_info import SourceInfo, add_source_info
from loader.stores.cache_pool import CachePool, DirectLazy, Lazy, MockLazy, NoCachePool
from loader.stores.file_store import FileStore

__all__ = [
    "CachePool",
    "DirectLazy",
    "FileStore",
    "Lazy",
    "MockLazy",
    "NoCachePool",
    "SourceInfo",
    "add_source_info",
    "edataclass",
]
