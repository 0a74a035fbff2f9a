"""Encode small media in which each frame shows its number, and each audio sample depends on its time.

A frame's number is painted as 16 blocks, black or white, that survive compression and resizing. The audio is a tone
with an amplitude and pitch that rise with time, the same in every container.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt

WIDTH, HEIGHT = 64, 48
_COLUMNS, _ROWS = 4, 4  # 16 bits


def painted(number: int, *, width: int = WIDTH, height: int = HEIGHT) -> npt.NDArray[np.uint8]:
    """Paint the number of a frame, (height, width, 3)."""
    bits = np.array([number >> bit & 1 for bit in range(_ROWS * _COLUMNS)], dtype=np.uint8).reshape(_ROWS, _COLUMNS)
    blocks = np.kron(bits, np.ones((height // _ROWS, width // _COLUMNS), dtype=np.uint8)) * 208 + 24
    return np.repeat(blocks[:, :, None], 3, axis=2)


def number_in(frame: Any) -> int:
    """Read the number painted in a frame of shape (3, height, width)."""
    grey = np.asarray(frame, dtype=np.float32).mean(axis=0)
    height, width = grey.shape
    rows = (np.arange(_ROWS) * 2 + 1) * height // (2 * _ROWS)
    columns = (np.arange(_COLUMNS) * 2 + 1) * width // (2 * _COLUMNS)
    bits = grey[np.ix_(rows, columns)].reshape(-1) > 128
    return int(sum(1 << bit for bit, is_set in enumerate(bits) if is_set))


def numbers_in(clip: Any) -> list[int]:
    """Read the numbers of all frames of a clip (frames, 3, height, width)."""
    return [number_in(frame) for frame in clip]


def tone(samples: int, *, rate: int = 8000, channels: int = 1) -> npt.NDArray[np.float32]:
    """Return the audio of all files here, (channels, samples): no two places of it are alike."""
    seconds = np.arange(samples) / rate
    wave = np.sin(2 * np.pi * (200 + 40 * seconds) * seconds) * np.minimum(0.2 + seconds * 0.05, 0.8)
    return np.stack([wave / (channel + 1) for channel in range(channels)]).astype(np.float32)


def encode(
    *,
    container: str = "mp4",
    video: str | None = "libx264",
    frames: int = 50,
    fps: Fraction | int = 10,
    gop: int = 10,
    b_frames: int = 2,
    pts: Sequence[int] | None = None,
    time_base: Fraction | None = None,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    audio: str | None = None,
    audio_seconds: float | None = None,
    rate: int = 8000,
    channels: int = 1,
    audio_start: int = 0,
    container_options: dict[str, str] | None = None,
    video_options: dict[str, str] | None = None,
    audio_options: dict[str, str] | None = None,
    sample_format: str = "fltp",
) -> bytes:
    """Encode a file.

    Args:
        pts: Times of the frames in units of ``time_base``; evenly by ``fps`` if None.
        audio_start: Time of the first sample, in samples.
    """
    file = io.BytesIO()
    with av.open(file, "w", format=container, options=container_options or {}) as output:
        streams: list[tuple[Any, list[Any]]] = []
        if video:
            stream = output.add_stream(video, rate=fps, options=video_options or {})
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height = size
            stream.pix_fmt = "yuvj420p" if video == "mjpeg" else "yuv420p"
            stream.gop_size = gop
            stream.codec_context.thread_count = 1
            if video in ("libx264", "mpeg4", "mpeg2video"):
                stream.max_b_frames = b_frames
            if video == "libx264":
                stream.options = {"preset": "veryfast", "sc_threshold": "0", "crf": "18", **(video_options or {})}
            base = time_base or Fraction(1, fps)
            stream.codec_context.time_base = base
            pictures = []
            for number in range(frames):
                picture = av.VideoFrame.from_ndarray(painted(number, width=size[0], height=size[1]), format="rgb24")
                picture.pts = pts[number] if pts is not None else number
                picture.time_base = base
                pictures.append(picture)
            streams.append((stream, pictures))
        if audio:
            layout = "mono" if channels == 1 else "stereo"
            stream = output.add_stream(
                audio, rate=rate, layout=layout, format=sample_format, options=audio_options or {}
            )
            wave = tone(int((audio_seconds or frames / fps) * rate), rate=rate, channels=channels)
            streams.append((stream, list(_audio_frames(wave, layout, rate, sample_format, audio_start))))
        _mux(output, streams)
    return file.getvalue()


def _audio_frames(wave: npt.NDArray[np.float32], layout: str, rate: int, sample_format: str, start: int) -> Any:
    planar = sample_format.endswith("p")
    values: npt.NDArray[Any] = wave
    if sample_format.startswith("s16"):
        values = np.round(wave * 32767).astype(np.int16)
    elif sample_format.startswith("s32"):
        values = np.round(wave.astype(np.float64) * (2**31 - 1)).astype(np.int32)
    elif sample_format.startswith("u8"):
        values = np.round(wave * 127 + 128).astype(np.uint8)
    for offset in range(0, values.shape[1], 1000):
        block = values[:, offset : offset + 1000]
        packed = block if planar else np.ascontiguousarray(block.T).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(packed), format=sample_format, layout=layout)
        frame.sample_rate = rate
        frame.time_base = Fraction(1, rate)
        frame.pts = start + offset
        yield frame


def _mux(output: Any, streams: list[tuple[Any, list[Any]]]) -> None:
    """Write the streams' frames in the order of their times, as for a player."""
    timed = [
        (float(frame.pts * frame.time_base), number, frame)
        for number, (_, frames) in enumerate(streams)
        for frame in frames
    ]
    for _, number, frame in sorted(timed, key=lambda entry: entry[:2]):
        output.mux(streams[number][0].encode(frame))
    for stream, _ in streams:
        output.mux(stream.encode(None))


def hevc_in_avi(**options: Any) -> bytes:
    """Encode HEVC in AVI, which FFmpeg reads but does not write: as H.264, with another code."""
    return in_avi(encode(video="libx265", container="matroska", **options), "hevc").replace(b"H264", b"HEVC")


def in_avi(data: bytes, codec: str) -> bytes:
    """Copy the packets of a file at 10 frames/s to AVI, which keeps their order and not their times.

    Args:
        codec: Codec of the video, "h264" or "hevc".
    """
    file = io.BytesIO()
    options = {"avoid_negative_ts": "disabled"}  # else sound that begins before 0 shifts the frames
    with av.open(io.BytesIO(data), "r") as whole, av.open(file, "w", format="avi", options=options) as output:
        video = whole.streams.video[0]
        copies = {sound.index: output.add_stream_from_template(sound) for sound in whole.streams.audio}
        stream = output.add_stream("libx264", rate=10)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = video.width, video.height, "yuv420p"
        stream.max_b_frames = 0  # else AVI gets a gap after its first packet
        annex_b = av.BitStreamFilterContext(f"{codec}_mp4toannexb", video)
        numbers = itertools.count()
        for packet in whole.demux():
            if packet.stream.index in copies and packet.size:
                packet.stream = copies[packet.stream.index]
                output.mux(packet)
            elif packet.stream is video:
                for part in annex_b.filter(packet):
                    if part.size:
                        part.pts = part.dts = next(numbers)
                        part.duration = 1
                        part.time_base, part.stream = Fraction(1, 10), stream
                        output.mux(part)
    return file.getvalue()


def rotated(data: bytes, degrees: int) -> bytes:
    """Set a clockwise rotation in the header of an MP4 file."""
    turns = {90: (0, 1, -1, 0), 180: (-1, 0, 0, -1), 270: (0, -1, 1, 0)}
    a, b, c, d = (value << 16 for value in turns[degrees])
    matrix = b"".join(value.to_bytes(4, "big", signed=True) for value in (a, b, 0, c, d, 0, 0, 0, 1 << 30))
    at = data.index(b"tkhd") + 4 + 40  # after the version, the flags and the times
    return data[:at] + matrix + data[at + 36 :]


def trimmed(data: bytes, frames: int, *, fps: int = 10, ticks: int = 1024) -> bytes:
    """Set in the edit list of an MP4 file that its video begins with a later frame; the others stay in the file.

    Args:
        frames: Number of frames that are cut off.
        ticks: Duration of a frame on the clock of the video.
    """
    at = (
        data.index(b"elst") + 12
    )  # of the duration and the start, after the version, the flags and the number of entries
    duration, start = (int.from_bytes(data[place : place + 4], "big") for place in (at, at + 4))
    shorter = (duration - frames * 1000 // fps).to_bytes(4, "big")
    return data[:at] + shorter + (start + frames * ticks).to_bytes(4, "big") + data[at + 8 :]
