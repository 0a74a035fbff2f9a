# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from megatron.energon.cli.main import preview_command as _preview_command
command = _preview_command
