from loader.training.jsonl_factory import CrudeJsonlDatasetFactory, DefaultCrudeJsonlDatasetFactory

__all__ = ["CrudeJsonlDatasetFactory", "DefaultCrudeJsonlDatasetFactory"]
