from loader.samples.types import VidQASample
from loader.training.factories.webdatasets import VidQAWebdataset

__all__ = ["VidQASample", "VidQAWebdataset"]
