from loader.pipeline.stages.concat import ConcatDataset

__all__ = ["ConcatDataset"]
