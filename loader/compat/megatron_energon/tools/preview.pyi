# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from energon_cli.commands.look.preview.command import preview as _preview
command = _preview
