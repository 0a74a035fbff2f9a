from loader.training.factories.jsonl_factory import CrudeJsonlDatasetFactory, DefaultCrudeJsonlDatasetFactory

__all__ = ["CrudeJsonlDatasetFactory", "DefaultCrudeJsonlDatasetFactory"]
