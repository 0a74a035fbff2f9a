from loader.pipeline.stages.shuffle_buffer import ShuffleBufferDataset

__all__ = ["ShuffleBufferDataset"]
