"""Distinguish what parts and files are: by name, as webdataset does, and by first bytes. The only list of kinds.

Names follow the rules of webdataset. Only the text after the last dot of the part name counts (``seg.png`` is an
image), in any case (``TXT`` is text; webdataset keeps it as bytes). A part with ``.gz`` at the end is decompressed
first.

The first bytes count where a name says nothing, or something wrong. The tests are strict where texts begin with the
same bytes (``BM`` of a BMP), so that no text is taken for a picture or for sound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, Literal

import msgspec

HEADER_BYTES = 1024
"""Number of a file's first bytes that :func:`kind_of_bytes` needs."""

PartKind = Literal[
    "archive",
    "array",
    "audio",
    "bytes",
    "document",
    "empty",
    "image",
    "label",
    "page",
    "pickle",
    "pointer",
    "table",
    "text",
    "tree",
    "video",
]
"""Kinds of parts. No name means ``archive``, ``document`` (PDF), ``empty``, ``page`` (HTML, XML), ``pointer``
(to a file that is elsewhere) or ``table``, and no bytes for ``label``. ``bytes`` is unknown."""

MEDIA_KINDS: Final = ("image", "audio", "video")

TEXT = frozenset({"text", "transcript", "txt"})
"""Decoded to str."""

LABEL = frozenset({"cls", "cls2", "id", "index", "inx"})
"""Decoded to int."""

TREE = frozenset({"cbor", "jsn", "json", "jsonl", "mp", "msg"})
"""Decoded to dicts, lists and scalars."""

ARRAY = frozenset({"npy", "npz", "pth", "tb", "ten"})
"""Decoded to arrays or tensors."""

TORCH = frozenset({"pth", "tb", "ten"})
"""Arrays that torch decodes, or webdataset, which imports torch."""

PICKLE = frozenset({"pickle", "pkl", "pyd"})
"""Unpickled, if the caller trusts the data."""

_AUDIO = "aac aif aiff flac m4a m4b mka mp3 oga ogg opus sox wav weba wma"
AUDIO = frozenset(_AUDIO.split())
"""Audio files."""

_VIDEO = "3gp avi flv h264 m4v mjpeg mkv mov mp4 mpeg mpg ogv webm wmv"
VIDEO = frozenset(_VIDEO.split())
"""Video files."""

_COMMON = "apng avif bmp gif heic heif hif ico j2k jfif jp2 jpe jpeg jpg jpx jxl png tif tiff webp"
COMMON_IMAGE = frozenset(_COMMON.split())
"""Pictures that also other tools than Pillow read. Of these, media metadata is collected."""

_IMAGE = """
    blp bufr bw cur dcx dds dib emf eps fit fits flc fli ftc ftu gbr gif grib icb icns iim im j2c jpc jpf msp pbm pcd
    pcx pgm pnm ppm ps psd pxr ras rgb rgba sgi tga vda vst wmf xbm xpm
"""
IMAGE = COMMON_IMAGE | frozenset(_IMAGE.split())
"""Decoded as images: the list of webdataset without ``mpg``, ``mpeg``, ``h5`` and ``hdf``, which are not images, and
with AVIF, HEIC and JPEG XL."""

_KIND_OF_EXTENSION: dict[str, PartKind] = {
    **dict.fromkeys(ARRAY, "array"),
    **dict.fromkeys(LABEL, "label"),
    **dict.fromkeys(PICKLE, "pickle"),
    **dict.fromkeys(TEXT, "text"),
    **dict.fromkeys(TREE, "tree"),
    **dict.fromkeys(AUDIO, "audio"),
    **dict.fromkeys(VIDEO, "video"),
    **dict.fromkeys(IMAGE, "image"),
}


@lru_cache(maxsize=1000)
def is_compressed(part_name: str) -> bool:
    """Return True if a part is decompressed by gzip before it is decoded.

    >>> is_compressed("json.gz"), is_compressed("GZ"), is_compressed("tgz")
    (True, True, False)
    """
    return part_name.lower().rpartition(".")[2] == "gz"


@lru_cache(maxsize=1000)
def part_extension(part_name: str) -> str:
    """Return the extension of a part name, by which it is decoded: lower-case, after the last dot, without ``.gz``.

    >>> part_extension("seg.PNG"), part_extension("json.gz"), part_extension("txt")
    ('png', 'json', 'txt')
    """
    return part_name.lower().removesuffix(".gz").rpartition(".")[2]


def kind_of_name(part_name: str) -> PartKind:
    """Return the kind of a part by its name, or ``"bytes"`` if the extension is unknown.

    >>> kind_of_name("JPG"), kind_of_name("left.TXT"), kind_of_name("bin")
    ('image', 'text', 'bytes')
    """
    return _KIND_OF_EXTENSION.get(part_extension(part_name), "bytes")


@dataclass(frozen=True, slots=True)
class Kind:
    """Describe a file by its first bytes.

    Attributes:
        extension: The usual extension of such files, without a dot; empty if they have none.
        description: What such a file is called, with an article: ``"a PNG picture"``.
    """

    kind: PartKind
    extension: str
    description: str


_UNKNOWN = Kind("bytes", "", "a file of unknown kind")
_EMPTY = Kind("empty", "", "an empty file (0 bytes)")
_MP4 = Kind("video", "mp4", "an MP4 video")
_TIFF = Kind("image", "tif", "a TIFF picture")
_BMP = Kind("image", "bmp", "a BMP picture")
_ICO = Kind("image", "ico", "an icon")
_JP2 = Kind("image", "jp2", "a JPEG 2000 picture")
_JXL = Kind("image", "jxl", "a JPEG XL picture")
_GIF = Kind("image", "gif", "a GIF picture")
_AVIF = Kind("image", "avif", "an AVIF picture")
_HEIC = Kind("image", "heic", "a HEIC picture")
_MP3 = Kind("audio", "mp3", "MP3 sound")
_AAC = Kind("audio", "aac", "AAC sound")
_AIFF = Kind("audio", "aiff", "AIFF sound")
_M4A = Kind("audio", "m4a", "MP4 sound")
_WAV = Kind("audio", "wav", "WAV sound")
_OPUS = Kind("audio", "opus", "Opus sound")
_TS = Kind("video", "ts", "an MPEG transport stream")
_ZIP = Kind("archive", "zip", "a zip archive")
_PICKLE = Kind("pickle", "pkl", "a Python pickle")
_NPZ = Kind("array", "npz", "an archive of numpy arrays")
_TORCH = Kind("array", "pth", "a file of torch.save")
_TAR = Kind("archive", "tar", "a tar archive")
_MSGPACK = Kind("tree", "msg", "a MessagePack document")
_TEXT = Kind("text", "txt", "a text")
_JSON = Kind("tree", "json", "a JSON document")
_JSONL = Kind("tree", "jsonl", "a file of JSON lines")
_HTML = Kind("page", "html", "an HTML page, as web servers answer with an error")
_XML = Kind("page", "xml", "an XML document, as object stores answer with an error")
_SVG = Kind("page", "svg", "an SVG drawing, which is text")

_STARTS: tuple[tuple[bytes, Kind], ...] = (
    (b"\xff\xd8\xff", Kind("image", "jpg", "a JPEG picture")),
    (b"\x89PNG\r\n\x1a\n", Kind("image", "png", "a PNG picture")),
    (b"GIF87a", _GIF),
    (b"GIF89a", _GIF),
    (b"II*\0", _TIFF),
    (b"MM\0*", _TIFF),
    (b"II+\0", _TIFF),  # BigTIFF
    (b"MM\0+", _TIFF),
    (b"\0\0\0\x0cjP  \r\n\x87\n", _JP2),
    (b"\xffO\xffQ", Kind("image", "j2k", "a JPEG 2000 code stream")),
    (b"\0\0\0\x0cJXL \r\n\x87\n", _JXL),
    (b"\xff\x0a", _JXL),  # its bare code stream
    (b"8BPS\0\x01", Kind("image", "psd", "a Photoshop picture")),
    (b"qoif\0", Kind("image", "qoi", "a QOI picture")),
    (b"DDS |\0\0\0", Kind("image", "dds", "a DDS picture")),
    (b"v/1\x01", Kind("image", "exr", "an OpenEXR picture")),
    (b"fLaC", Kind("audio", "flac", "FLAC sound")),
    (b"ID3\x02", _MP3),  # with tags
    (b"ID3\x03", _MP3),
    (b"ID3\x04", _MP3),
    (b"#!AMR", Kind("audio", "amr", "AMR sound")),
    (b"FLV\x01", Kind("video", "flv", "a Flash video")),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9", Kind("video", "wmv", "a Windows Media file")),
    (b"\0\0\x01\xba", Kind("video", "mpg", "an MPEG video")),
    (b"%PDF-", Kind("document", "pdf", "a PDF document")),
    (b"\x93NUMPY", Kind("array", "npy", "a numpy array")),
    (b"PK\x05\x06", _ZIP),  # without members
    (b"\x1f\x8b\x08", Kind("archive", "gz", "a file compressed by gzip")),
    *((b"BZh%d1AY&SY" % level, Kind("archive", "bz2", "a file compressed by bzip2")) for level in range(1, 10)),
    (b"\xfd7zXZ\0", Kind("archive", "xz", "a file compressed by xz")),
    (b"\x28\xb5\x2f\xfd", Kind("archive", "zst", "a file compressed by Zstandard")),
    (b"\x04\x22\x4d\x18", Kind("archive", "lz4", "a file compressed by LZ4")),
    (b"7z\xbc\xaf\x27\x1c", Kind("archive", "7z", "a 7-Zip archive")),
    (b"Rar!\x1a\x07", Kind("archive", "rar", "a RAR archive")),
    (b"PAR1\x15", Kind("table", "parquet", "a Parquet file")),
    (b"ARROW1\0\0", Kind("table", "arrow", "an Arrow file")),
    (b"SQLite format 3\0", Kind("table", "sqlite", "a SQLite database")),
    (b"\x89HDF\r\n\x1a\n", Kind("table", "h5", "an HDF5 file")),
    (b"version https://git-lfs", Kind("pointer", "", "a Git LFS pointer: git lfs pull fetches the file")),
    (b"/annex/objects/", Kind("pointer", "", "a git-annex pointer: git annex get fetches the file")),
)
POINTER_STARTS = tuple(start for start, kind in _STARTS if kind.kind == "pointer")
"""First bytes of files that stand for others, which are not fetched."""

_RIFF = {b"WEBP": Kind("image", "webp", "a WebP picture"), b"WAVE": _WAV, b"AVI ": Kind("video", "avi", "an AVI video")}
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), _AVIF),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1"), _HEIC),
    **dict.fromkeys((b"M4A ", b"M4B "), _M4A),
    b"qt  ": Kind("video", "mov", "a QuickTime video"),
}
_MOV_BOXES = frozenset((b"mdat", b"moov", b"wide"))
_BMP_HEADER_SIZES = frozenset((12, 40, 52, 56, 64, 108, 124))
_TS_PACKET = 188
_TAR_MAGIC = 257  # offset of "ustar"
_PICKLE_OPCODES = b"\x95\x8c\x8a\x88\x89(c}])]XJKMGNBCT\x8e\x8f"
"""First opcodes of pickled values after the protocol: frames, texts, numbers, containers, classes."""

_CONTROL = re.compile(r"[\0-\x07\x0e-\x1a\x1c-\x1f]")  # \x1b colours the text of terminals
_JSON_START = re.compile(r'\s*(?:\{\s*(?:"|\}\s*\Z)|\[\s*(?:[{\["\]]|(?:-?\d[\d.eE+-]*|true|false|null)\s*[,\]]))')
_PAGE_START = re.compile(r"\s*<(?:!doctype html|html|head|body)\b", re.IGNORECASE)


def kind_of_bytes(head: bytes, size: int | None = None) -> Kind:
    r"""Return what a file is by its first bytes.

    Args:
        head: The first :data:`HEADER_BYTES` bytes; fewer of shorter files.
        size: Size of the file in bytes; None if it is unknown. Texts and documents that end in the head are checked
            to their end.

    >>> kind_of_bytes(b"GIF89a").description, kind_of_bytes(b"").kind, kind_of_bytes(b"a cat", 5).kind
    ('a GIF picture', 'empty', 'text')
    """
    head = bytes(head[:HEADER_BYTES])
    if size == 0 or not head:
        return _EMPTY
    for start, kind in _STARTS:
        if head.startswith(start):
            return kind
    is_whole = size is not None and size <= len(head)
    for kind_of in (_container, _frames, partial(_document, is_whole=is_whole)):
        kind_of_head = kind_of(head)
        if kind_of_head is not None:
            return kind_of_head
    return _UNKNOWN


def kind_of_part(part_name: str, contents: Kind | None) -> PartKind:
    r"""Return the kind of a part: by its name, unless its contents are a picture, sound or video under another name.

    Args:
        contents: What its first bytes say; None if they were not read.

    >>> kind_of_part("img", kind_of_bytes(b"GIF89a")), kind_of_part("txt", None)
    ('image', 'text')
    """
    named = kind_of_name(part_name)
    if contents is None or contents.kind not in MEDIA_KINDS or {named, contents.kind} == {"audio", "video"}:
        return named  # containers of video hold sound alone, too
    return named if part_extension(part_name) == "mjpeg" else contents.kind  # it is JPEGs one after another


def usual_extension(data: bytes | memoryview) -> str | None:
    r"""Return the usual extension of a picture, sound, video, PDF or array; None for other contents.

    >>> usual_extension(b"RIFF\0\0\0\0WAVEfmt "), usual_extension(b"hello")
    ('wav', None)
    """
    kind = kind_of_bytes(bytes(data[:HEADER_BYTES]), len(data))
    return kind.extension if kind.kind in (*MEDIA_KINDS, "array", "document") else None


def with_extension(name: str, data: bytes | memoryview) -> str:
    """Return a part name with the extension of its contents, as it is if :func:`usual_extension` knows none.

    >>> with_extension("left.jpg", b"GIF89a"), with_extension("jpg", b"GIF89a"), with_extension("jpg", b"?")
    ('left.gif', 'gif', 'jpg')
    """
    extension = usual_extension(data)
    if extension is None:
        return name
    first, dot, _ = name.rpartition(".")
    return f"{first}{dot}{extension}"


def _container(head: bytes) -> Kind | None:
    # Formats that begin with the name of their container.
    tag = head[8:12]
    match head[:4]:
        case b"RIFF" | b"RF64":
            return _RIFF.get(tag)
        case b"FORM":
            return _AIFF if tag in (b"AIFF", b"AIFC") else None
        case b"OggS":
            return _ogg(head) if head[4:5] == b"\0" else None
        case b"\x1aE\xdf\xa3":
            is_webm = b"webm" in head[:64]
            return Kind("video", "webm", "a WebM video") if is_webm else Kind("video", "mkv", "a Matroska video")
        case b"PK\x03\x04":
            return _zip(head)
    # Formats whose first box has a size before its name.
    if head[4:8] == b"ftyp":
        is_avif = b"avif" in head[16 : int.from_bytes(head[:4], "big")]  # as a compatible brand
        return _AVIF if is_avif else _BRANDS.get(tag, _MP4)
    if head[4:8] in _MOV_BOXES:
        return _BRANDS[b"qt  "]
    return _TAR if head[_TAR_MAGIC : _TAR_MAGIC + 5] == b"ustar" else None


def _ogg(head: bytes) -> Kind:
    if head[28:36] == b"OpusHead":
        return _OPUS
    return Kind("video", "ogv", "an Ogg video") if head[28:35] == b"\x80theora" else Kind("audio", "ogg", "Ogg sound")


def _zip(head: bytes) -> Kind:
    """Distinguish numpy's and torch's archives from others by the name of the first member."""
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if name.endswith(b".npy"):
        return _NPZ
    return _TORCH if name.endswith((b"/data.pkl", b"/.format_version", b"/byteorder", b"/version")) else _ZIP


def _frames(head: bytes) -> Kind | None:
    """Return the kind of a file by its first bytes, also if they are few or text."""
    if head[:2] == b"BM":
        # Texts begin with "BM", too.
        is_header = int.from_bytes(head[14:18], "little") in _BMP_HEADER_SIZES
        return _BMP if head[6:10] == bytes(4) and is_header else None
    if head[:4] == b"\0\0\x01\0":
        count = int.from_bytes(head[4:6], "little")
        offset = int.from_bytes(head[18:22], "little")  # of the first picture, after the list of all pictures
        return _ICO if 0 < count < 256 and head[9:10] == b"\0" and offset >= 6 + 16 * count else None
    if head[0] == 0xFF:
        return _mpeg_audio(head)
    if head[0] == 0x80 and 2 <= int.from_bytes(head[1:2], "big") <= 5 and head[2:3] in _PICKLE_OPCODES:
        return _PICKLE
    is_ts = len(head) > 2 * _TS_PACKET and head[0] == head[_TS_PACKET] == head[2 * _TS_PACKET] == 0x47
    return _TS if is_ts else None


def _mpeg_audio(head: bytes) -> Kind | None:
    """Return the kind if MP3 or AAC frames start here, without tags."""
    if len(head) < 4 or head[1] & 0xF0 not in (0xE0, 0xF0):
        return None
    layer = head[1] >> 1 & 3
    if layer == 0:  # AAC, where the bits after the sync word are fixed
        return _AAC if head[1] & 0xF6 == 0xF0 and head[2] >> 2 & 0xF < 13 else None
    # Layer 1 is out of use, and UTF-16 texts start like it.
    is_frame = layer in (1, 2) and head[1] >> 3 & 3 != 1 and head[2] >> 4 not in (0, 15) and head[2] >> 2 & 3 != 3
    return _MP3 if is_frame else None


def _document(head: bytes, *, is_whole: bool) -> Kind | None:
    text = _text_of(head, is_whole=is_whole)
    if text is None:
        return _MSGPACK if is_whole and _is_msgpack(head) else None
    if _PAGE_START.match(text):
        return _HTML
    if text.lstrip().startswith(("<?xml", "<svg")):
        return _SVG if "<svg" in text else _XML
    if not _JSON_START.match(text):
        return _TEXT
    first, _, rest = text.strip().partition("\n")
    if rest.lstrip().startswith("{") and _is_json(first):
        return _JSONL
    return _JSON if not is_whole or _is_json(text) else _TEXT


def _text_of(head: bytes, *, is_whole: bool) -> str | None:
    """Decode UTF-8, or UTF-16 with a byte order mark; None if the bytes are no text."""
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = head.decode(encoding)
    except UnicodeDecodeError as error:
        is_cut = not is_whole and len(head) - error.start < 4  # in the middle of a character
        if not is_cut or not error.start:
            return None
        text = head[: error.start].decode(encoding)
    return None if _CONTROL.search(text) else text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_msgpack(data: bytes) -> bool:
    """Return True for a map with names as keys, to its end: other bytes decode as MessagePack by chance."""
    try:
        value = msgspec.msgpack.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return False
    return isinstance(value, Mapping) and bool(value) and all(isinstance(key, str) for key in value)


_FOREIGN: Mapping[PartKind | None, frozenset[PartKind]] = {
    "array": frozenset({"page", "pointer"}),  # numpy's and torch's files are archives
    "text": frozenset({"pointer"}),  # a page is a text
    None: frozenset({"archive", "document", "page", "pointer", "table"}),
}
"""Kind by name (None for the others) → kinds of contents that such a part cannot have."""


def foreign_contents(part_name: str, data: bytes, *, is_unreadable: bool = False) -> str | None:
    """Return one line if a part is a file of another kind than its name says; None if it is not, or unknown.

    >>> foreign_contents("jpg", b"%PDF-1.7")
    "part 'jpg' is not an image, but a PDF document"
    >>> foreign_contents("gif", b"GIF89a", is_unreadable=True)
    "part 'gif' is a GIF picture, but is damaged"
    """
    if is_compressed(part_name):
        return None
    named, contents = kind_of_name(part_name), kind_of_bytes(data[:HEADER_BYTES], len(data))
    if named == "bytes":
        return f"part {part_name!r} is {contents.description}" if contents.kind == "pointer" else None
    expected = f"part {part_name!r} is not {'an image' if named == 'image' else part_extension(part_name)}"
    is_foreign = contents.kind in _FOREIGN.get(named, _FOREIGN[None]) or kind_of_part(part_name, contents) != named
    if not is_foreign and not is_unreadable:
        return None
    if contents.kind == named:
        return f"part {part_name!r} is {contents.description}, but is damaged"
    but = "" if contents.kind == "bytes" else f", but {contents.description}"
    return f"{expected}{but}" if is_foreign else f"{expected}{but} (it starts with {data[:16]!r})"
