# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import BinIdxDatasetFactory as BinIdxDatasetFactory
from loader import BinIdxFileStore as BinIdxFileStore
from loader import DefaultBinIdxDatasetFactory as DefaultBinIdxDatasetFactory
