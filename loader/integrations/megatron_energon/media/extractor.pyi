# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from loader.av.av_decoder import AVDecoder as AVDecoder
from loader.format.media.metadata import ImageMetadata as ImageMetadata
from loader.format.media.metadata import MediaMetadataBase as MediaMetadataBase
from loader.integrations.megatron_energon_names import MediaFilterConfig as MediaFilterConfig
from loader.integrations.megatron_energon_names import MediaFilterStrategy as MediaFilterStrategy
from loader.integrations.megatron_energon_names import MediaMetadataType as MediaMetadataType
