from loader.pipeline.log_sample import LogSampleDataset

__all__ = ["LogSampleDataset"]
