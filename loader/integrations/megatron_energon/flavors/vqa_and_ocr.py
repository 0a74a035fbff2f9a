from loader.samples.types import VQAOCRSample
from loader.training.factories.webdatasets import VQAOCRWebdataset

__all__ = ["VQAOCRSample", "VQAOCRWebdataset"]
