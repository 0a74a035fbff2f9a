from ...av.av_data import AVData
from ...av.av_decoder import AVDecoder
from .config import MAIN_FOLDER_NAME
from .sample_decoder import SampleDecoder

__all__ = ["MAIN_FOLDER_NAME", "AVData", "AVDecoder", "SampleDecoder"]
