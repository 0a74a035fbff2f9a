from loader.pipeline.map import MapDataset

__all__ = ["MapDataset"]
