from loader.pipeline.group_batch import GroupBatchDataset

__all__ = ["GroupBatchDataset"]
