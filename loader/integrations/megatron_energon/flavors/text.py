from loader.samples.types import TextSample

__all__ = ["TextSample"]
