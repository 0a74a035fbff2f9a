"""Cut a segment out of a recording, exactly: frames of WAV are copied, and FLAC is decoded and encoded again."""

from __future__ import annotations

import io
import struct
from typing import BinaryIO

from ...errors import SampleError, required_package
from ...parts.kinds import HEADER_BYTES, kind_of_bytes

_MAX_OVERSHOOT_S = 0.5  # of an end that was rounded, as in Kaldi
_MAX_BYTES = 1 << 30  # of the samples of a segment, which are in memory
_MAX_CHUNKS = 1000  # before the samples of a WAV
_MAX_FORMAT_BYTES = 4096
_EXTENSIBLE = 0xFFFE
_PCM, _FLOAT, _A_LAW, _MU_LAW = 1, 3, 6, 7  # formats whose frames have one size, and do not depend on each other


class ShortenedSound(bytes):
    """A segment that ends with its recording, a little before its own end."""


def cut_sound(file: BinaryIO, begin_s: float, end_s: float | None) -> bytes:
    """Return a segment of a WAV or FLAC, with its format, rate, channels and bits.

    A time means the nearest frame, so that segments that follow each other share no frame and leave none out.

    Args:
        file: The recording, which can seek.
        end_s: None for the end of the recording.

    Raises:
        SampleError: The recording has another format, is damaged, or does not have the segment.
        ConfigError: The package for FLAC is missing.
    """
    head = file.read(HEADER_BYTES)
    file.seek(0)
    if head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        return _cut_wav(file, begin_s, end_s)
    if head[:4] == b"fLaC":
        return _cut_flac(file, begin_s, end_s)
    raise SampleError(
        f"segments are cut from WAV and FLAC; this is {kind_of_bytes(head, len(head)).description}",
        hint="convert the recordings, such as by: ffmpeg -i NAME.mp3 NAME.flac, and import a table that names those",
    )


def _span(begin_s: float, end_s: float | None, *, rate: int, frames: int, frame_bytes: int) -> tuple[int, int, bool]:
    """Return the first frame, the one after the last, and whether the recording ends before the segment."""
    start, stop = round(begin_s * rate), frames if end_s is None else round(end_s * rate)
    if not start < min(stop, frames) or stop > frames + _MAX_OVERSHOOT_S * rate:
        end = "the end" if end_s is None else f"{end_s:g} s"
        raise SampleError(f"expected a segment in {frames / rate:g} s of sound, found one from {begin_s:g} s to {end}")
    if (min(stop, frames) - start) * frame_bytes > _MAX_BYTES:
        raise SampleError(f"a segment has more than {_MAX_BYTES:,} bytes of samples; divide it")
    return start, min(stop, frames), stop > frames


def _cut_wav(file: BinaryIO, begin_s: float, end_s: float | None) -> bytes:
    # Read the format; an extensible one names another.
    fmt, offset, size_bytes = _wav_chunks(file)
    if len(fmt) < 16:
        raise SampleError("this WAV is damaged: it has no format before its samples")
    code, _, rate, _, frame_bytes, _ = struct.unpack_from("<HHIIHH", fmt)
    if code == _EXTENSIBLE and len(fmt) >= 26:
        code = struct.unpack_from("<H", fmt, 24)[0]
    if code not in (_PCM, _FLOAT, _A_LAW, _MU_LAW) or not (rate and frame_bytes):
        raise SampleError(f"expected a WAV of integers, floats, A-law or µ-law, found the format {code:#06x}")
    # Copy the frames.
    frames = size_bytes // frame_bytes
    start, stop, is_shorter = _span(begin_s, end_s, rate=rate, frames=frames, frame_bytes=frame_bytes)
    file.seek(offset + start * frame_bytes)
    data = file.read((stop - start) * frame_bytes)
    if len(data) != (stop - start) * frame_bytes:
        raise SampleError("this WAV ends early")
    # Formats other than integers have a chunk with the number of frames.
    chunks = _chunk(b"fmt ", fmt) + (_chunk(b"fact", struct.pack("<I", stop - start)) if code != _PCM else b"")
    sound = _chunk(b"RIFF", b"WAVE" + chunks + _chunk(b"data", data))
    return ShortenedSound(sound) if is_shorter else sound


def _chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def _wav_chunks(file: BinaryIO) -> tuple[bytes, int, int]:
    """Return the format of a WAV, and the offset and size of its samples in bytes."""
    end, position, fmt, large = file.seek(0, io.SEEK_END), 12, b"", 0
    for _ in range(_MAX_CHUNKS):
        file.seek(position)
        head = file.read(8)
        if len(head) < 8:
            break
        name, size = struct.unpack("<4sI", head)
        position += 8
        if name == b"ds64":  # sizes of a file of 4 GiB or more
            large = int.from_bytes(file.read(16)[8:], "little")
        elif name == b"fmt ":
            fmt = file.read(min(size, _MAX_FORMAT_BYTES))
        elif name == b"data":
            # A program that writes to a pipe does not know the size.
            return fmt, position, min(large if size == 0xFFFFFFFF and large else size or end, end - position)
        position += size + size % 2
    raise SampleError("this WAV is damaged: it has no samples")


def _cut_flac(file: BinaryIO, begin_s: float, end_s: float | None) -> bytes:
    with required_package("FLAC is cut by the package soundfile", hint="pip install 'energon-toolkit[speech]'"):
        import soundfile
    try:
        # 32 bits hold all samples of FLAC, whose own bits are the upper ones.
        with soundfile.SoundFile(file) as sound:
            rate, bits, frame_bytes = sound.samplerate, sound.subtype, 4 * sound.channels
            start, stop, is_shorter = _span(begin_s, end_s, rate=rate, frames=sound.frames, frame_bytes=frame_bytes)
            sound.seek(start)
            samples = sound.read(stop - start, dtype="int32")
        if len(samples) != stop - start:
            raise SampleError("this FLAC ends early")
        cut = io.BytesIO()
        soundfile.write(cut, samples, rate, subtype=bits, format="FLAC")
    except soundfile.SoundFileError as error:
        raise SampleError(f"this FLAC cannot be read: {error}") from error
    return ShortenedSound(cut.getvalue()) if is_shorter else cut.getvalue()
