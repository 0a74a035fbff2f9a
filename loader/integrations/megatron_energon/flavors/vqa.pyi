# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from loader import VQASample as VQASample
from loader import VQAWebdataset as VQAWebdataset
