# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from megatron.energon.cli.main import prepare_command as _prepare_command
command = _prepare_command
