# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from loader.pipeline.contract.user_state import FlexState as FlexState
from loader.pipeline.contract.user_state import Savable as Savable
