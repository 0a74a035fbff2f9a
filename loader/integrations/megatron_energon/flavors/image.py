from loader.samples.types import ImageSample
from loader.training.factories.webdatasets import ImageWebdataset

__all__ = ["ImageSample", "ImageWebdataset"]
