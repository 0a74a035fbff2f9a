from loader.samples.types import ImageSample
from loader.training.webdatasets import ImageWebdataset

__all__ = ["ImageSample", "ImageWebdataset"]
