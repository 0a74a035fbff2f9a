from loader.pipeline.shuffle_buffer import ShuffleBufferDataset

__all__ = ["ShuffleBufferDataset"]
