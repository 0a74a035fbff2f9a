from .metadata import AVMetadata, ImageMetadata, MediaMetadataBase, deserialize_media_metadata, serialize_media_metadata

__all__ = ["AVMetadata", "ImageMetadata", "MediaMetadataBase", "deserialize_media_metadata", "serialize_media_metadata"]
