from loader.samples.types import InterleavedSample
from loader.training.factories.webdatasets import InterleavedWebdataset

__all__ = ["InterleavedSample", "InterleavedWebdataset"]
