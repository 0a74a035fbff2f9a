# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from energon_cli.commands.make.prepare_media import prepare_media as _prepare_media
command = _prepare_media
