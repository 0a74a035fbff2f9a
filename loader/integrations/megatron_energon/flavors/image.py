from loader.samples.types import ImageSample

__all__ = ["ImageSample"]
