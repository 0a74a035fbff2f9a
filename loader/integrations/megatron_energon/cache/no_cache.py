from loader.stores.lazy import DirectLazy
from loader.stores.no_cache_pool import NoCachePool

__all__ = ["DirectLazy", "NoCachePool"]
