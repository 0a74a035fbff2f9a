# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from energon_cli.checkpoint.command import checkpoint as _checkpoint
command = _checkpoint
from energon_cli.checkpoint.info import info as _info
command_info = _info
from energon_cli.checkpoint.redist import redist as _redist
command_redist = _redist
