from loader.samples.types import VQASample
from loader.training.webdatasets import VQAWebdataset

__all__ = ["VQASample", "VQAWebdataset"]
