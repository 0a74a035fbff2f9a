from loader.training.factories.webdataset_factory import DefaultGenericWebdatasetFactory

from .config import MAIN_FOLDER_NAME

__all__ = ["MAIN_FOLDER_NAME", "DefaultGenericWebdatasetFactory"]
