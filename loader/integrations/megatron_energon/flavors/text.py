from loader.samples.types import TextSample
from loader.training.factories.webdatasets import TextWebdataset

__all__ = ["TextSample", "TextWebdataset"]
