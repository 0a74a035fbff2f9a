from loader.samples.types import OCRSample
from loader.training.webdatasets import OCRWebdataset

__all__ = ["OCRSample", "OCRWebdataset"]
