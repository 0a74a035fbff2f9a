# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import DefaultGenericWebdatasetFactory as DefaultGenericWebdatasetFactory
from loader.format.nv_meta import FOLDER as _FOLDER
MAIN_FOLDER_NAME = _FOLDER
