# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import DefaultGenericWebdatasetFactory as DefaultGenericWebdatasetFactory
from megatron.energon.flavors.webdataset.config import MAIN_FOLDER_NAME as MAIN_FOLDER_NAME
