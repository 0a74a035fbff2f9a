from loader.stores.cache_pool import DirectLazy, NoCachePool

__all__ = ["DirectLazy", "NoCachePool"]
