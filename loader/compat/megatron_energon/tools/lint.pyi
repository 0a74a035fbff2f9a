# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from energon_cli.commands.look.lint import lint as _lint
command = _lint
