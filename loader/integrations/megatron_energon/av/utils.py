from loader.av.av_data import AVData
from loader.av.av_decoder import AVDecoder
from loader.av.uniform_clips import get_clips_uniform, get_single_frames_uniform

__all__ = ["AVData", "AVDecoder", "get_clips_uniform", "get_single_frames_uniform"]
