# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from loader.av.av_decoder import AVDecoder as AVDecoder
from loader.compat.kinds_and_media import MediaFilterConfig as MediaFilterConfig
from loader.compat.kinds_and_media import MediaFilterStrategy as MediaFilterStrategy
from loader.compat.kinds_and_media import MediaMetadataType as MediaMetadataType
from loader.format.media.metadata import ImageMetadata as ImageMetadata
from loader.format.media.metadata import MediaMetadataBase as MediaMetadataBase
