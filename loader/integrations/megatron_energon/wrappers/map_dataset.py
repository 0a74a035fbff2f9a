from loader.pipeline.stages.map import MapDataset

__all__ = ["MapDataset"]
