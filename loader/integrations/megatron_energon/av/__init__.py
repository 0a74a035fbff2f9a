from .av_data import AVData
from .av_decoder import AVDecoder, AVWebdatasetDecoder
from .utils import get_clips_uniform, get_single_frames_uniform

__all__ = ["AVData", "AVDecoder", "AVWebdatasetDecoder", "get_clips_uniform", "get_single_frames_uniform"]
