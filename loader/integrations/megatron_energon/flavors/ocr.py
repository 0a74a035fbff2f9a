from loader.samples.types import OCRSample

__all__ = ["OCRSample"]
