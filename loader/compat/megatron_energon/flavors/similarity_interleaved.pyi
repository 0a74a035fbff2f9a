# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import SimilarityInterleavedSample as SimilarityInterleavedSample
from loader import SimilarityInterleavedWebdataset as SimilarityInterleavedWebdataset
