from loader.training.factories.dataset_from_path import MetadatasetV2

from ..flavors.webdataset.config import INDEX_SQLITE_FILENAME, MAIN_FOLDER_NAME

__all__ = ["INDEX_SQLITE_FILENAME", "MAIN_FOLDER_NAME", "MetadatasetV2"]
