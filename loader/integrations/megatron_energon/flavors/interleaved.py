from loader.samples.types import InterleavedSample
from loader.training.webdatasets import InterleavedWebdataset

__all__ = ["InterleavedSample", "InterleavedWebdataset"]
