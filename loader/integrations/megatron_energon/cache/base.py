from loader.format.media_metadata import MediaMetadataBase
from loader.samples.file_store_decoder import FileStoreDecoder
from loader.samples.keyword_dataclass import edataclass
from loader.samples.source_info import SourceInfo, add_source_info
from loader.stores.cache_pool import CachePool
from loader.stores.file_store import FileStore
from loader.stores.lazy import Lazy, MockLazy
from loader.stores.primary_file_store import PrimaryFileStore

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
