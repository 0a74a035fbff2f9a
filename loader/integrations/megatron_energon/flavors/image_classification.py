from loader.samples.types import ImageClassificationSample
from loader.training.factories.webdatasets import ImageClassificationWebdataset

__all__ = ["ImageClassificationSample", "ImageClassificationWebdataset"]
