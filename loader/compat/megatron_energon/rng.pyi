# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import WorkerConfig as WorkerConfig
from loader.compat.saved_states import SystemRng as SystemRng
from loader.compat.saved_states import SystemRngState as SystemRngState
from loader.compat.worker_rng import WorkerRng as WorkerRng
