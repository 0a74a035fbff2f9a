# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from megatron.energon.epathlib.epath import DEFAULT_PROFILE_NAME as DEFAULT_PROFILE_NAME
