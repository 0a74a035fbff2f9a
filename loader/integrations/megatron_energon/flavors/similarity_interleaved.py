from loader.samples.types import SimilarityInterleavedSample
from loader.training.factories.webdatasets import SimilarityInterleavedWebdataset

__all__ = ["SimilarityInterleavedSample", "SimilarityInterleavedWebdataset"]
