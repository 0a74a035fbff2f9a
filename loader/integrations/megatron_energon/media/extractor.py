from loader.format.media_metadata import ImageMetadata

__all__ = ["ImageMetadata"]
