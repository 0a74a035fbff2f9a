from loader.pipeline.stages.filter import FilterDataset

__all__ = ["FilterDataset"]
