"""Measure single frames of a video with few keyframes, against megatron-energon.

usage: python benchmarks/bench_video.py [--peer-bin FOLDER] [--rounds N]

Both libraries decode eight frames at even distances from one H.264 file of 60 s, 640 × 360 pixels, 25 frames a second,
with a keyframe every 10 s. They run in turn, each in its own process with one decoding thread; a round is the median
processor time of some calls, after a first one. All frames are compared.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import io
import json
import statistics
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

from processes import run
from report import machine_facts, print_table

SECONDS, FPS, KEYFRAME_EVERY_S = 60, 25, 10
WIDTH, HEIGHT = 640, 360
FRAMES = 8
CALLS = 7
LIBRARIES = ("loader", "megatron.energon")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--peer-bin", type=Path, help="folder of the Python with megatron-energon; not measured if absent"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", nargs=2, metavar=("LIBRARY", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(*arguments.measure)
        return
    pythons = {"loader": Path(sys.executable)}
    if arguments.peer_bin:
        pythons["megatron.energon"] = arguments.peer_bin / "python"
    with tempfile.TemporaryDirectory() as folder:
        video = Path(folder, "video.mp4")
        video.write_bytes(encode())
        print(machine_facts())
        compare(pythons, video, arguments.rounds)


def compare(pythons: dict[str, Path], video: Path, rounds: int) -> None:
    """Measure the libraries in turn, check that they return equal frames, and print the medians."""
    found: dict[str, list[dict[str, Any]]] = {library: [] for library in pythons}
    for _ in range(rounds):
        for library, python in pythons.items():
            found[library].append(json.loads(run([python, __file__, "--measure", library, video]).stdout))
    if len({round_["frames"] for rounds_ in found.values() for round_ in rounds_}) != 1:
        raise SystemExit("the libraries return different frames")
    medians = {library: statistics.median(one["cpu_s"] for one in rounds_) for library, rounds_ in found.items()}
    rows = [
        [
            library,
            f"{1000 * medians[library]:.0f} ms",
            ", ".join(f"{1000 * one['cpu_s']:.0f}" for one in found[library]),
        ]
        for library in found
    ]
    print_table([["library", "processor time", "rounds, ms"], *rows])
    if len(medians) == len(LIBRARIES):
        own, peer = (medians[library] for library in LIBRARIES)
        print(f"\n{FRAMES} frames, all equal: {peer / own:.2f}x")


def measure(library: str, file: str) -> None:
    """Print the processor time of a call, and a checksum of the frames."""
    decoder_class = importlib.import_module(f"{library}.av").AVDecoder
    data = Path(file).read_bytes()
    step = SECONDS / FRAMES
    times = [(number + 0.5) * step + 0.5 / FPS for number in range(FRAMES)]  # in the middle of a frame
    spent: list[float] = []
    clips: list[Any] = []
    for _ in range(CALLS + 1):
        start = time.process_time()
        clips, _seconds = decoder_class(io.BytesIO(data)).get_video_clips([(at, at) for at in times])
        spent.append(time.process_time() - start)
    frames = hashlib.sha256()
    for clip in clips:
        if tuple(clip.shape) != (1, 3, HEIGHT, WIDTH):
            raise SystemExit(f"{library} returned a clip of {tuple(clip.shape)}")
        frames.update(clip.contiguous().numpy().tobytes())
    print(json.dumps({"cpu_s": statistics.median(spent[1:]), "frames": frames.hexdigest(), "count": len(clips)}))


def encode() -> bytes:
    """Encode a photograph through which the camera pans, with noise."""
    import av
    import numpy as np
    from demo_photographs import open_photograph  # the environment of megatron-energon may lack it

    photograph = np.tile(np.asarray(open_photograph("astronaut.png")), (2, 3, 1))
    random = np.random.default_rng(0)
    noise = random.integers(-6, 7, (HEIGHT + 64, WIDTH + 64, 3))
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        stream = output.add_stream(
            "libx264", rate=FPS, options={"preset": "veryfast", "crf": "23", "sc_threshold": "0"}
        )
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.gop_size = KEYFRAME_EVERY_S * FPS
        for number in range(SECONDS * FPS):
            x, y = number * 2 % 800, number % 600
            at = random.integers(0, 64, 2)
            grain = noise[at[0] : at[0] + HEIGHT, at[1] : at[1] + WIDTH]
            pixels = np.clip(photograph[y : y + HEIGHT, x : x + WIDTH] + grain, 0, 255).astype(np.uint8)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return file.getvalue()


if __name__ == "__main__":
    main()
