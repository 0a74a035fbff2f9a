from loader.samples.types import CaptioningSample

__all__ = ["CaptioningSample"]
