from loader.errors import SkipSample

__all__ = ["SkipSample"]
