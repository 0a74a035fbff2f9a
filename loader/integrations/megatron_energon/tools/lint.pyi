# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from energon_cli.lint.command import lint as _lint
command = _lint
