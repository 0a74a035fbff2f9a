# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from loader import ImageSample as ImageSample
from loader import ImageWebdataset as ImageWebdataset
