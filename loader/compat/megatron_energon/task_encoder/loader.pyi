# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.compat.run_functions import get_train_dataset as get_train_dataset
from loader.compat.run_functions import get_val_dataset as get_val_dataset
from loader.compat.run_functions import get_val_datasets as get_val_datasets
