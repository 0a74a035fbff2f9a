# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from loader.compat.documents import JsonParser as JsonParser
from loader.compat.documents import JsonValueError as JsonValueError
