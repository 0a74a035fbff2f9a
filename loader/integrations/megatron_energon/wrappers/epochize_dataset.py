from loader.pipeline.stages.epochize import EpochizeDataset

__all__ = ["EpochizeDataset"]
