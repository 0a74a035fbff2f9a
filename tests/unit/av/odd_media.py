"""Encode media whose headers do not tell what decodes: hidden and packed frames, unset sizes, cut ends."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av

from tests.unit.av.encoded_media import HEIGHT, WIDTH, encode

_VOP = b"\0\0\x01\xb6"
_PLACEHOLDER = _VOP + b"\x50\x9f"  # a predicted frame at time 0 that is not coded, for ten ticks a second
_PACKED = b"\0\0\x01\xb2DivX503b1393p"  # the mark of the programs that pack frames


@cache
def wav(seconds: float = 1.0) -> bytes:
    return encode(video=None, container="wav", audio="pcm_s16le", sample_format="s16", audio_seconds=seconds)


def wav_of_size(size_bytes: int) -> bytes:
    """Return a WAV of 8,000 samples whose chunk ``data`` states another size, as programs write into a pipe."""
    data = wav()
    at = data.index(b"data") + 4
    return data[:at] + size_bytes.to_bytes(4, "little") + data[at + 4 :]


@cache
def rf64(form: bytes = b"RF64") -> bytes:
    data = encode(
        video=None,
        container="wav",
        audio="pcm_s16le",
        sample_format="s16",
        audio_seconds=1,
        container_options={"rf64": "always"},
    )
    return form + data[4:]


def with_trailing_chunk(data: bytes) -> bytes:
    return data + b"LIST" + (20).to_bytes(4, "little") + b"INFOISFT" + (8).to_bytes(4, "little") + b"A title\0"


def packets_of(data: bytes) -> list[bytes]:
    container: Any = av.open(io.BytesIO(data))
    with container:
        return [bytes(packet) for packet in container.demux(video=0) if packet.size]


def muxed(codec: str, container: str, packets: Sequence[bytes], is_key: Callable[[bytes], bool]) -> bytes:
    """Write packets, one every tenth of a second."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream: Any = output.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for number, data in enumerate(packets):
            packet: Any = av.Packet(data)
            packet.pts = packet.dts = number
            packet.time_base, packet.stream, packet.is_keyframe = Fraction(1, 10), stream, is_key(data)
            output.mux(packet)
    return file.getvalue()


@cache
def hidden_vp8(container: str = "webm") -> bytes:
    """Return 60 frames of VP8 of which 5 are not shown, as an encoder with alternate references writes them."""
    packets = packets_of(encode(video="libvpx", container="ivf", frames=60, gop=1000))
    hidden = [data if number % 12 != 11 else bytes([data[0] & 0xEF]) + data[1:] for number, data in enumerate(packets)]
    return muxed("libvpx", container, hidden, lambda data: not data[0] & 1)


@cache
def hidden_vp9(container: str = "webm", *, split: bool = False) -> bytes:
    """Return 40 frames of VP9 of which 3 are not shown, each in a superframe with the next one, or in a packet."""
    packets = packets_of(encode(video="libvpx-vp9", container="ivf", frames=40, gop=1000))
    groups: list[list[bytes]] = []
    for number, data in enumerate(packets):
        is_after_hidden = number % 12 == 10 and not split
        groups.append([*(groups.pop() if is_after_hidden else []), _hide_vp9(data) if number % 12 == 9 else data])
    joined = [_superframe(group) if len(group) > 1 else group[0] for group in groups]
    return muxed("libvpx-vp9", container, joined, lambda data: data is joined[0])


def _hide_vp9(frame: bytes) -> bytes:
    """Clear show_frame, after which the header has one bit more, intra_only, at the start of its second byte."""
    size = 10  # bytes of the header of the frames above, which ends with unused bits
    bits = int.from_bytes(frame[1:size], "big")
    hidden = bytes([frame[0] & ~2])
    if bits & 1 == 0:
        return hidden + (bits >> 1).to_bytes(size - 1, "big") + frame[size:]
    return hidden + (bits << 7).to_bytes(size, "big") + frame[size:]


def _superframe(frames: Sequence[bytes]) -> bytes:
    mark = bytes([0b110_01_000 | len(frames) - 1])
    return b"".join(frames) + mark + b"".join(len(frame).to_bytes(2, "little") for frame in frames) + mark


def _coded_mpeg4(b_frames: int) -> list[bytes]:
    return packets_of(encode(video="mpeg4", container="avi", frames=50, b_frames=b_frames, gop=12))


def _avi(packets: Sequence[bytes]) -> bytes:
    return muxed("mpeg4", "avi", packets, lambda data: data[data.index(_VOP) + 4] >> 6 == 0)


@cache
def packed_b_frames() -> bytes:
    """Return 50 frames of MPEG-4, with B-frames in the packets of the frames before them, and then a placeholder."""
    first, *rest = _coded_mpeg4(1)
    at = first.index(_VOP)
    packed = [first[:at] + _PACKED + first[at:]]
    for anchor, between in zip(rest[::2], rest[1::2], strict=False):
        packed += [anchor + between, _PLACEHOLDER]
    return _avi([*packed, rest[-1]])


@cache
def dropped_frames() -> bytes:
    """Return 50 frames of MPEG-4, and 9 placeholders for frames that the encoder dropped."""
    coded = _coded_mpeg4(0)
    packets = [[data, _PLACEHOLDER] if number % 5 == 4 else [data] for number, data in enumerate(coded[:-1])]
    return _avi([data for some in packets for data in some] + coded[-1:])


def faststart(data: bytes, path: Path) -> bytes:
    """Return an MP4 with its index at its start."""
    source: Any = av.open(io.BytesIO(data))
    with source, av.open(str(path), "w", options={"movflags": "faststart"}) as output:
        streams = {stream.index: output.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.size:
                packet.stream = streams[packet.stream.index]
                output.mux(packet)
    return path.read_bytes()
