from loader.pipeline.stages.iter_map import IterMapDataset

__all__ = ["IterMapDataset"]
