from loader.samples.types import CrudeSample
from loader.training.webdatasets import CrudeWebdataset

__all__ = ["CrudeSample", "CrudeWebdataset"]
