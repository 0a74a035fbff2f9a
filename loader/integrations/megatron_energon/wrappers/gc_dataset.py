from loader.pipeline.stages.gc import GcDataset

__all__ = ["GcDataset"]
