from loader.samples.types import ImageClassificationSample

__all__ = ["ImageClassificationSample"]
