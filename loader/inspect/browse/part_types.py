"""Choose the media types that parts are sent with; nothing that a browser would run has one of its own."""

from __future__ import annotations

from ...accounting.kinds import kind_of_name

_PICTURES = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "bmp": "image/bmp",
    "avif": "image/avif",
}
_MEDIA = {
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "oga": "audio/ogg",
    "opus": "audio/ogg",
    "m4a": "audio/mp4",
    "mp4": "video/mp4",
    "m4v": "video/mp4",
    "webm": "video/webm",
    "mov": "video/quicktime",
}
_TEXTS = ("txt", "json", "jsonl", "html", "htm", "svg", "xml", "md", "csv", "tsv", "yaml", "yml", "cls", "caption")


def _extension(part: str) -> str:
    return part.rpartition(".")[2].lower()


def is_picture(part: str) -> bool:
    """Return True if a part's name is that of an image which Pillow decodes.

    >>> is_picture("seg.PNG"), is_picture("svg")
    (True, False)
    """
    return kind_of_name(_extension(part)) == "image"


def media_type(part: str) -> str:
    """Return the media type that a part is sent with: SVG and HTML are text, and unknown parts are bytes.

    >>> media_type("jpg"), media_type("svg"), media_type("x.wav"), media_type("pkl")
    ('image/jpeg', 'text/plain; charset=utf-8', 'audio/wav', 'application/octet-stream')
    """
    extension = _extension(part)
    known = _PICTURES.get(extension) or _MEDIA.get(extension)
    if known is None and extension in _TEXTS:
        return "text/plain; charset=utf-8"
    return known or "application/octet-stream"
