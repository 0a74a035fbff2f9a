"""File stores, which read files by name for samples, and cache pools, which read them ahead."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
