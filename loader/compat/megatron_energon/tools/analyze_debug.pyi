# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from energon_cli.commands.run.analyze_debug import analyze_debug as _analyze_debug
command = _analyze_debug
