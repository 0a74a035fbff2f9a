from loader.pipeline.stages.limit import LimitDataset

__all__ = ["LimitDataset"]
