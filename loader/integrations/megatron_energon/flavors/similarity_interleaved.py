from loader.samples.types import SimilarityInterleavedSample

__all__ = ["SimilarityInterleavedSample"]
