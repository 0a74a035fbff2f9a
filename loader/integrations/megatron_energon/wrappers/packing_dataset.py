from loader.pipeline.packing import PackingDataset

__all__ = ["PackingDataset"]
