from loader.pipeline.stages.group_batch import GroupBatchDataset

__all__ = ["GroupBatchDataset"]
