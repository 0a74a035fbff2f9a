from loader.samples.types import SimilarityInterleavedSample
from loader.training.webdatasets import SimilarityInterleavedWebdataset

__all__ = ["SimilarityInterleavedSample", "SimilarityInterleavedWebdataset"]
