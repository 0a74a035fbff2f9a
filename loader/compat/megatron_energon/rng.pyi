# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import WorkerConfig as WorkerConfig
from loader.compat.generators import SystemRng as SystemRng
from loader.compat.generators import SystemRngState as SystemRngState
from loader.compat.generators import WorkerRng as WorkerRng
