# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from energon_cli.lint.command import lint as _lint
command = _lint
