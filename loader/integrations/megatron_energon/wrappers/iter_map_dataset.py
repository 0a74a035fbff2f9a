from loader.pipeline.iter_map import IterMapDataset

__all__ = ["IterMapDataset"]
