from loader.samples.types import CrudeSample

__all__ = ["CrudeSample"]
