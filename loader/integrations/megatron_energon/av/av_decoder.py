from loader.av.av_data import AVData
from loader.av.av_decoder import AVDecoder
from loader.format.media.metadata import AVMetadata
from loader.samples.decoding.webdataset_decoder import AVWebdatasetDecoder

from .av_reader import AVProbeIndex

__all__ = ["AVData", "AVDecoder", "AVMetadata", "AVProbeIndex", "AVWebdatasetDecoder"]
