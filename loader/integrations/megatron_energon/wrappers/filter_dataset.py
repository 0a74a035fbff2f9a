from loader.pipeline.filter import FilterDataset

__all__ = ["FilterDataset"]
