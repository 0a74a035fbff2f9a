from loader.pipeline.repeat import RepeatDataset

__all__ = ["RepeatDataset"]
