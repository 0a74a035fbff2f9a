from loader.samples.types import VQASample
from loader.training.factories.webdatasets import VQAWebdataset

__all__ = ["VQASample", "VQAWebdataset"]
