"""Read tar shards without a dataset's index: a folder that is not prepared, or one tar file."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
