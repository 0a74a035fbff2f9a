# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import BlendDataset as BlendDataset
from loader import SavableDataset as SavableDataset
from loader import WorkerConfig as WorkerConfig
from loader.samples.encoding.task_encoder import T_sample as T_sample
