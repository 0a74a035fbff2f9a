# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from energon_cli.commands.look.info import info as _info
command = _info
