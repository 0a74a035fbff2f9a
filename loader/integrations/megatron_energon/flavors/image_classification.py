from loader.samples.types import ImageClassificationSample
from loader.training.webdatasets import ImageClassificationWebdataset

__all__ = ["ImageClassificationSample", "ImageClassificationWebdataset"]
