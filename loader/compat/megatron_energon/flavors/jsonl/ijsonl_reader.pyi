# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from loader import SourceInfo as SourceInfo
from loader.compat.jsonl_index import CachedIJsonlOffsetReader as CachedIJsonlOffsetReader
from loader.compat.jsonl_index import IJsonlReader as IJsonlReader
