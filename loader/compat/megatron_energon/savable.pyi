# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.pipeline.contract.user_state import FlexState as FlexState
from loader.pipeline.contract.user_state import Savable as Savable
