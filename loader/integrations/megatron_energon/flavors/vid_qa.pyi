# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from loader import VidQASample as VidQASample
from loader import VidQAWebdataset as VidQAWebdataset
