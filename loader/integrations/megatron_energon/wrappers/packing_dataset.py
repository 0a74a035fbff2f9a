from loader.pipeline.stages.packing import PackingDataset

__all__ = ["PackingDataset"]
