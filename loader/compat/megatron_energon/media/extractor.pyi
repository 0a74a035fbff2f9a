# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from loader.av.av_decoder import AVDecoder as AVDecoder
from loader.compat.media_filters import MediaFilterConfig as MediaFilterConfig
from loader.compat.media_filters import MediaFilterStrategy as MediaFilterStrategy
from loader.format.media.metadata import ImageMetadata as ImageMetadata
from loader.format.media.metadata import MediaMetadataBase as MediaMetadataBase
from loader.format.media.metadata import MediaMetadataType as MediaMetadataType
