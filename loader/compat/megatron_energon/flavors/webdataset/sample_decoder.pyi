# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import FileStoreDecoder as FileStoreDecoder
from loader import SampleDecoder as SampleDecoder
from loader.samples.decoding.decoder import AVWebdatasetDecoder as AVWebdatasetDecoder
