from loader.pipeline.limit import LimitDataset

__all__ = ["LimitDataset"]
