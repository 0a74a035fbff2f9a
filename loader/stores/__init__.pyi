# The public names of this package, each with the module that defines it.

from .aux_store import PrimaryFileStore as PrimaryFileStore, open_aux_store as open_aux_store
from .cache_pool import (
    CachePool as CachePool,
    DirectLazy as DirectLazy,
    Lazy as Lazy,
    MockLazy as MockLazy,
    NoCachePool as NoCachePool,
)
from .dataset_file_store import (
    DatasetFileStore as DatasetFileStore,
)
from .decode_store import DecodeFileStore as DecodeFileStore
from .file_store import (
    FileStore as FileStore,
    MissingFileError as MissingFileError,
    add_source as add_source,
)
from .file_store_cache_pool import (
    CacheFileLazy as CacheFileLazy,
    FileCacheLazy as FileCacheLazy,
    FileStoreCachePool as FileStoreCachePool,
)
from .record_file_stores import (
    BinIdxFileStore as BinIdxFileStore,
    JsonlFileStore as JsonlFileStore,
)
from .system_file_store import (
    SystemFileStore as SystemFileStore,
)
