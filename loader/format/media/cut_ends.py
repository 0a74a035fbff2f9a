"""Find files of audio and video that end before the sizes in their own headers say, without decoding them.

Decoders of most formats take the end of a file for the end of the sound or film.
"""

from __future__ import annotations

from collections.abc import Callable

_UNSET = (0, 0x7FFFFFFF, 0xFFFFFFFF)
_UNSET_SLACK = 4096  # programs that write to a pipe subtract the size of a header, or round to blocks
_BOXES = frozenset((b"mdat", b"moof", b"moov"))  # the others may be garbage behind the file, or are no loss
_EBML, _SEGMENT = b"\x1aE\xdf\xa3", b"\x18S\x80g"
_KBITS = (
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),  # of MPEG 2 and 2.5, layer 3
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # of MPEG 1, layer 3
)
_FIRST_FRAME_BYTES = 64  # more than the headers before the number
_RATES = (44_100, 48_000, 32_000)  # of MPEG 1; half of MPEG 2, a quarter of MPEG 2.5


def _is_unset_size(size_bytes: int) -> bool:
    """Return True if a 32-bit size is one that programs write when they do not know it."""
    return any(abs(size_bytes - unset) <= (_UNSET_SLACK if unset else 0) for unset in _UNSET)


def cut_fault(data: bytes, format_name: str) -> str | None:
    """Return one line if a file ends too early, else None.

    Args:
        data: The file.
        format_name: FFmpeg's name of its format.
    """
    check = _CHECKS.get(format_name.partition(",")[0])
    end = None if check is None else check(data)
    if end is None or end <= len(data):
        return None
    return f"it is cut short: it ends at byte {len(data):,}, its header says {end:,}"


def _riff_end(data: bytes) -> int | None:
    """Return the stated end of the chunk ``data`` of a WAV, or of an AVI or AIFF file."""
    order = "big" if data.startswith(b"FORM") else "little"
    if data[8:12] != b"WAVE":
        size_bytes = int.from_bytes(data[4:8], order)  # type: ignore[arg-type] # one of the two literals
        return None if _is_unset_size(size_bytes) else size_bytes  # some programs count the eight bytes before it, too
    start, long_size = 12, None
    while start + 8 <= len(data):
        name, size_bytes = data[start : start + 4], int.from_bytes(data[start + 4 : start + 8], "little")
        if name == b"ds64":  # RF64 and BW64
            long_size = int.from_bytes(data[start + 16 : start + 24], "little")
        if name == b"data":
            if size_bytes == 0xFFFFFFFF and long_size is not None:
                return start + 8 + long_size
            return None if _is_unset_size(size_bytes) else start + 8 + size_bytes
        start += 8 + size_bytes + size_bytes % 2
    return None


def _ogg_end(data: bytes) -> int | None:
    page = data.rfind(b"OggS\0")
    count = data[page + 26] if 0 <= page < len(data) - 26 else 0
    table = data[page + 27 : page + 27 + count]
    return page + 27 + count + sum(table) if page >= 0 else None


def _box_end(data: bytes) -> int | None:
    """Return the end of the last box of an MP4 that has media or their index."""
    start = end = 0
    while start + 8 <= len(data):
        size_bytes, name = int.from_bytes(data[start : start + 4], "big"), data[start + 4 : start + 8]
        if size_bytes == 1:
            size_bytes = int.from_bytes(data[start + 8 : start + 16], "big")
        if size_bytes < 8:  # 0 is a box up to the end of the file
            break
        start += size_bytes
        end = start if name in _BOXES else end
    return end


def _segment_end(data: bytes) -> int | None:
    """Return the end of the segment of a Matroska file, unless it was written without a size, as live streams are."""
    header_bytes, start = _vint(data, len(_EBML))
    start += header_bytes or 0
    if not data.startswith(_EBML) or data[start : start + len(_SEGMENT)] != _SEGMENT:
        return None
    size_bytes, start = _vint(data, start + len(_SEGMENT))
    return None if size_bytes is None else start + size_bytes


def _vint(data: bytes, start: int) -> tuple[int | None, int]:
    """Read a size of EBML; return it, or None if it is unknown, and the place behind it."""
    first = data[start] if start < len(data) else 0
    width = 9 - first.bit_length()
    value = int.from_bytes(data[start : start + width], "big") & (1 << 7 * width) - 1
    return None if value == (1 << 7 * width) - 1 else value, start + width


_CHECKS: dict[str, Callable[[bytes], int | None]] = {
    "aiff": _riff_end,
    "avi": _riff_end,
    "matroska": _segment_end,
    "mov": _box_end,
    "ogg": _ogg_end,
    "wav": _riff_end,
}
"""Functions by the first of FFmpeg's names of a format."""


def cut_frame_bytes(frame: bytes) -> int:
    """Return the number of bytes that a frame of MP3 or AAC (ADTS) lacks at its end, by its header.

    >>> cut_frame_bytes(bytes.fromhex("fff338c4") + bytes(88))
    16
    """
    if len(frame) < 7 or frame[0] != 0xFF or frame[1] & 0xE0 != 0xE0:
        return 0
    layer, version = frame[1] >> 1 & 3, frame[1] >> 3 & 3
    if layer == 0:
        return max(0, ((frame[3] & 3) << 11 | frame[4] << 3 | frame[5] >> 5) - len(frame))
    kbits, rate = frame[2] >> 4, frame[2] >> 2 & 3
    if layer != 1 or version == 1 or not 0 < kbits < 15 or rate == 3:
        return 0
    is_first = version == 3
    per_frame = (144_000 if is_first else 72_000) * _KBITS[is_first][kbits]
    size_bytes = per_frame // (_RATES[rate] >> {3: 0, 2: 1, 0: 2}[version]) + (frame[2] >> 1 & 1)
    return max(0, size_bytes - len(frame))


def mp3_frames(data: bytes) -> int:
    """Return the number of frames that the first frame of an MP3 states, which encoders write for it; 0 without one."""
    start = 0
    while data.startswith(b"ID3", start):  # tags, with a size of four times seven bits
        size = data[start + 6 : start + 10]
        start += 10 + sum((byte & 0x7F) << 7 * place for place, byte in enumerate(reversed(size)))
    first = data[start : start + _FIRST_FRAME_BYTES]
    for mark in (b"Xing", b"Info"):
        at = first.find(mark)
        if 0 <= at <= len(first) - 12 and first[at + 7] & 1:
            return int.from_bytes(first[at + 8 : at + 12], "big")
    return 0
