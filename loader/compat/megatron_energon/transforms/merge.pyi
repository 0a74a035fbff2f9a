# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.compat.transform_mappers import MergeTransform as MergeTransform
