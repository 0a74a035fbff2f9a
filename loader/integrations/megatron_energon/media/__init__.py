from .metadata import AVMetadata, ImageMetadata, deserialize_media_metadata, serialize_media_metadata

__all__ = ["AVMetadata", "ImageMetadata", "deserialize_media_metadata", "serialize_media_metadata"]
