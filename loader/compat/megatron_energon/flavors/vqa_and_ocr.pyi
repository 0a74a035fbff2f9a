# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import VQAOCRSample as VQAOCRSample
from loader import VQAOCRWebdataset as VQAOCRWebdataset
