# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.compat.sample_buffer import SavableSampleBuffer as SavableSampleBuffer
