from loader.samples.types import CrudeSample
from loader.training.factories.webdatasets import CrudeWebdataset

__all__ = ["CrudeSample", "CrudeWebdataset"]
