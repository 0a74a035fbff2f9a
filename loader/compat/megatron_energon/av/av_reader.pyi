# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.compat.index_writer import AVProbeIndex as AVProbeIndex
from loader.compat.index_writer import AVProbeIndexEntry as AVProbeIndexEntry
