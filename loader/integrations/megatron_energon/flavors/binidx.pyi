# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from loader import BinIdxDatasetFactory as BinIdxDatasetFactory
from loader import BinIdxFileStore as BinIdxFileStore
from loader import DefaultBinIdxDatasetFactory as DefaultBinIdxDatasetFactory
