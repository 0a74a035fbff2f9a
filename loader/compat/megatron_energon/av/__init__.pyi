# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.av.av_data import AVData as AVData
from loader.av.av_decoder import AVDecoder as AVDecoder
from loader.av.av_decoder import get_clips_uniform as get_clips_uniform
from loader.av.av_decoder import get_single_frames_uniform as get_single_frames_uniform
from loader.samples.decoding.decoder import AVWebdatasetDecoder as AVWebdatasetDecoder
