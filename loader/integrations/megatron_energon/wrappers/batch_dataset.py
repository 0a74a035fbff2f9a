from loader.pipeline.batch import BatchDataset

__all__ = ["BatchDataset"]
