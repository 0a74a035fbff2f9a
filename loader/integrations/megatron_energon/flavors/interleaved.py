from loader.samples.types import InterleavedSample

__all__ = ["InterleavedSample"]
