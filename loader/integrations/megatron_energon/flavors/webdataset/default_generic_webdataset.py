from loader.training.webdataset_factory import DefaultGenericWebdatasetFactory

__all__ = ["DefaultGenericWebdatasetFactory"]
