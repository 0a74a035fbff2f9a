from .crude_jsonl_dataset import CrudeJsonlDatasetFactory, DefaultCrudeJsonlDatasetFactory

__all__ = ["CrudeJsonlDatasetFactory", "DefaultCrudeJsonlDatasetFactory"]
