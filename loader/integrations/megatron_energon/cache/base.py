from loader.format.media.metadata import MediaMetadataBase
from loader.samples.decoding.decoder import FileStoreDecoder
from loader.samples.sample_dataclass import edataclass
from loader.samples.source_info import SourceInfo, add_source_info
from loader.stores.aux_store import PrimaryFileStore
from loader.stores.cache_pool import CachePool, Lazy, MockLazy
from loader.stores.file_store import FileStore

__all__ = [
    "CachePool",
    "FileStore",
    "FileStoreDecoder",
    "Lazy",
    "MediaMetadataBase",
    "MockLazy",
    "PrimaryFileStore",
    "SourceInfo",
    "add_source_info",
    "edataclass",
]
