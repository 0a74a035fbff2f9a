# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from loader.compat.jsonl_index import CachedIJsonlOffsetReader as CachedIJsonlOffsetReader
from loader.compat.jsonl_index import IJSONL_SUFFIX as IJSONL_SUFFIX
from loader.compat.jsonl_index import IJsonlFile as IJsonlFile
from loader.compat.jsonl_index import IJsonlIndexReader as IJsonlIndexReader
from loader.compat.jsonl_index import IJsonlIndexWriter as IJsonlIndexWriter
from loader.compat.jsonl_index import IJsonlSamplePointer as IJsonlSamplePointer
