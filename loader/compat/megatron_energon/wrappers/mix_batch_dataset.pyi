# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import MixBatchDataset as MixBatchDataset
from loader import concat_pad as concat_pad
from loader import generic_concat as generic_concat
from loader import homogeneous_concat_mix as homogeneous_concat_mix
