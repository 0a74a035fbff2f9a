# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import CachePool as CachePool
from loader import SourceInfo as SourceInfo
from loader import WorkerConfig as WorkerConfig
from loader import log_exception as log_exception
from loader import reraise_exception as reraise_exception
