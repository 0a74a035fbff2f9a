from loader.samples.types import CaptioningSample
from loader.training.webdatasets import CaptioningWebdataset

__all__ = ["CaptioningSample", "CaptioningWebdataset"]
