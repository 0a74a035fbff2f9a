# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.av.av_data import AVData as AVData
from loader.av.av_decoder import AVDecoder as AVDecoder
from loader.compat.probe_index import AVProbeIndex as AVProbeIndex
from loader.format.media.metadata import AVMetadata as AVMetadata
from loader.samples.decoding.decoder import AVWebdatasetDecoder as AVWebdatasetDecoder
