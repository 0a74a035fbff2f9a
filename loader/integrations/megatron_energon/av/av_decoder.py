from loader.av.av_data import AVData
from loader.av.av_decoder import AVDecoder
from loader.format.media.metadata import AVMetadata

from .av_reader import AVProbeIndex

__all__ = ["AVData", "AVDecoder", "AVMetadata", "AVProbeIndex"]
