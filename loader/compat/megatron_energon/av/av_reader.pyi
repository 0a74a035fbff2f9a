# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.compat.probe_index import AVProbeIndex as AVProbeIndex
from loader.compat.probe_index import AVProbeIndexEntry as AVProbeIndexEntry
