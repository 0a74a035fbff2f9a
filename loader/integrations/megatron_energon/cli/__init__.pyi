# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
