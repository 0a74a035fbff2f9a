# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from loader.format.media.metadata import AVMetadata as AVMetadata
from loader.format.media.metadata import ImageMetadata as ImageMetadata
from loader.format.media.metadata import MediaMetadataBase as MediaMetadataBase
from loader.integrations.megatron_energon_names import MediaMetadataType as MediaMetadataType
from loader.integrations.megatron_energon_names import deserialize_media_metadata as deserialize_media_metadata
from loader.integrations.megatron_energon_names import serialize_media_metadata as serialize_media_metadata
