from loader.training.factories.webdataset_factory import DefaultGenericWebdatasetFactory

__all__ = ["DefaultGenericWebdatasetFactory"]
