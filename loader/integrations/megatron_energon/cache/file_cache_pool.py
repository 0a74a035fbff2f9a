from loader.stores.file_store_cache_pool import FileCacheLazy, FileStoreCachePool

__all__ = ["FileCacheLazy", "FileStoreCachePool"]
