from loader.samples.types import VidQASample
from loader.training.webdatasets import VidQAWebdataset

__all__ = ["VidQASample", "VidQAWebdataset"]
