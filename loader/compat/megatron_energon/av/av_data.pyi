# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.av.av_data import AVData as AVData
