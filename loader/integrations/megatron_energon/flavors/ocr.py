from loader.samples.types import OCRSample
from loader.training.factories.webdatasets import OCRWebdataset

__all__ = ["OCRSample", "OCRWebdataset"]
