# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from energon_cli.commands.run.checkpoint import checkpoint as _checkpoint
command = _checkpoint
from energon_cli.commands.run.checkpoint import info as _info
command_info = _info
from energon_cli.commands.run.checkpoint import redist as _redist
command_redist = _redist
