from loader.stores.binidx_file_store import BinIdxFileStore
from loader.training.factories.record_factory import BinIdxDatasetFactory, DefaultBinIdxDatasetFactory

__all__ = ["BinIdxDatasetFactory", "BinIdxFileStore", "DefaultBinIdxDatasetFactory"]
