from loader.samples.types import TextSample
from loader.training.webdatasets import TextWebdataset

__all__ = ["TextSample", "TextWebdataset"]
