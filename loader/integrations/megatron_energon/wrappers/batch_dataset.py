from loader.pipeline.stages.batch import BatchDataset

__all__ = ["BatchDataset"]
