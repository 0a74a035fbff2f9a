# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import VidQASample as VidQASample
from loader import VidQAWebdataset as VidQAWebdataset
