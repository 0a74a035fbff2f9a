from loader.samples.types import CaptioningSample
from loader.training.factories.webdatasets import CaptioningWebdataset

__all__ = ["CaptioningSample", "CaptioningWebdataset"]
