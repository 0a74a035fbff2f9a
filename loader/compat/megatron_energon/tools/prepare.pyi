# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from energon_cli.commands.make.prepare.command import prepare as _prepare
command = _prepare
