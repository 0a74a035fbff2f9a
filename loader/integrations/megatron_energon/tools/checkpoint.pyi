# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from energon_cli.checkpoint.command import checkpoint as _checkpoint
command = _checkpoint
