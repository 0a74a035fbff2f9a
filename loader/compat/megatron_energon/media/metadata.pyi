# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import edataclass as edataclass
from loader.format.media.metadata import AVMetadata as AVMetadata
from loader.format.media.metadata import ImageMetadata as ImageMetadata
from loader.format.media.metadata import MediaMetadataBase as MediaMetadataBase
from loader.format.media.metadata import MediaMetadataType as MediaMetadataType
from loader.format.media.metadata import deserialize_media_metadata as deserialize_media_metadata
from loader.format.media.metadata import serialize_media_metadata as serialize_media_metadata
