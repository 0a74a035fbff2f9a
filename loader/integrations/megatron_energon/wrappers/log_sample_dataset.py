from loader.pipeline.stages.log_sample import LogSampleDataset

__all__ = ["LogSampleDataset"]
