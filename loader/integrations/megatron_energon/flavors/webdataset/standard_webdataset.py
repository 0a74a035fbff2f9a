from loader.training.factories.webdataset_factory import StandardWebdatasetFactory

__all__ = ["StandardWebdatasetFactory"]
