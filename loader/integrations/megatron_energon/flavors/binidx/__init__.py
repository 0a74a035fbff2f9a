from loader.stores.record_file_stores import BinIdxFileStore
from loader.training.factories.record_factory import BinIdxDatasetFactory, DefaultBinIdxDatasetFactory

__all__ = ["BinIdxDatasetFactory", "BinIdxFileStore", "DefaultBinIdxDatasetFactory"]
