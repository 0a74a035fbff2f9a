# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import GcDataset as GcDataset
from loader.pipeline.stages.collect_garbage import GC_DEFAULT_EVERY_N_ITER as GC_DEFAULT_EVERY_N_ITER
