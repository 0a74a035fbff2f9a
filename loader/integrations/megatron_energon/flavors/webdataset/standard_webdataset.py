from loader.training.webdataset_factory import StandardWebdatasetFactory

__all__ = ["StandardWebdatasetFactory"]
