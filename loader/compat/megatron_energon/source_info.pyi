# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from loader import SourceInfo as SourceInfo
from loader.samples.source_info import add_source_info as add_source_info
from loader.samples.source_info import get_source_info as get_source_info
