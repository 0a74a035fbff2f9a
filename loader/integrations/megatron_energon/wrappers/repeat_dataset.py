from loader.pipeline.stages.repeat import RepeatDataset

__all__ = ["RepeatDataset"]
