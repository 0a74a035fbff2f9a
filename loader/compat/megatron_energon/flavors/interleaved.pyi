# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import InterleavedSample as InterleavedSample
from loader import InterleavedWebdataset as InterleavedWebdataset
