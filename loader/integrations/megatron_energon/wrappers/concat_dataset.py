from loader.pipeline.concat import ConcatDataset

__all__ = ["ConcatDataset"]
