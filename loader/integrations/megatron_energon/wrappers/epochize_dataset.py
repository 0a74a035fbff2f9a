from loader.pipeline.epochize import EpochizeDataset

__all__ = ["EpochizeDataset"]
