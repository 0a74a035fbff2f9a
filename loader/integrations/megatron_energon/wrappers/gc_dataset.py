from loader.pipeline.gc import GcDataset

__all__ = ["GcDataset"]
