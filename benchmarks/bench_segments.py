"""Compare the segments that `energon import --segments cut` cuts with what soundfile reads of the recordings.

usage: python benchmarks/bench_segments.py [--segments N] [--seed N]

Recordings of all formats are made: WAV of integers of 8 to 32 bits, of floats, of A-law and µ-law, extensible WAV,
RF64, and FLAC of 8 to 24 bits, with one to six channels. Every value, the bits, the rate and the channels have to be
equal.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile
from report import machine_facts

from loader.convert.importing import ImportPlan, run_import
from loader.convert.sources import SourceOptions, open_source

WAV = {
    "WAV": ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"],
    "WAVEX": ["PCM_16", "PCM_24", "FLOAT"],
    "RF64": ["PCM_16", "PCM_24"],
}
FORMATS = [
    (kind, bits) for kind, all_bits in {**WAV, "FLAC": ["PCM_S8", "PCM_16", "PCM_24"]}.items() for bits in all_bits
]


def make_recordings(folder: Path, segments: int, seed: int) -> None:
    """Write a manifest that names segments of a recording of each format; some follow each other."""
    draw, rows = random.Random(seed), []
    for number in range(segments):
        kind, bits = FORMATS[number % len(FORMATS)]
        name = f"{kind.lower()}_{bits.lower()}.{'flac' if kind == 'FLAC' else 'wav'}"
        if number < len(FORMATS):
            rate, channels = draw.choice([8000, 11025, 16000, 44100]), draw.choice([1, 2, 6])
            values = np.random.default_rng(number).integers(-(2**31), 2**31, (rate * 7 + number, channels), np.int32)
            sound = values / 2**31 if bits in ("FLOAT", "DOUBLE") else values
            soundfile.write(folder / name, sound, rate, subtype=bits, format=kind)
        offset, duration = round(draw.uniform(0, 6), draw.randrange(6)), round(draw.uniform(0.01, 1), 3)
        rows.append({"audio_filepath": name, "offset": offset, "duration": duration, "id": f"{number:06d}"})
    (folder / "manifest.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def count_equal(folder: Path, output: Path) -> int:
    """Return the number of segments in the shards; raise a ``ValueError`` for one that differs."""
    rows = {row["id"]: row for row in map(json.loads, (folder / "manifest.json").read_text().splitlines())}
    count = len(rows)
    for shard in sorted(output.glob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                key, _, part = member.name.partition(".")
                if part == "json":
                    continue
                row, data = rows.pop(key), tar.extractfile(member)
                begin, end = row["offset"], row["offset"] + row["duration"]
                cut = soundfile.SoundFile(io.BytesIO(b"" if data is None else data.read()))
                with soundfile.SoundFile(folder / row["audio_filepath"]) as whole:
                    start, stop = round(begin * whole.samplerate), round(end * whole.samplerate)
                    kind = "float64" if whole.subtype in ("FLOAT", "DOUBLE") else "int32"
                    whole.seek(start)
                    expected = whole.read(stop - start, dtype=kind)
                    facts = [(sound.samplerate, sound.channels, sound.subtype) for sound in (whole, cut)]
                if facts[0] != facts[1] or not np.array_equal(expected, cut.read(dtype=kind)):
                    raise ValueError(f"{row} differs: {facts}")
    if rows:
        raise ValueError(f"{len(rows)} segments are missing")
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as memory:
        folder, output = Path(memory, "data"), Path(memory, "out")
        folder.mkdir()
        make_recordings(folder, arguments.segments, arguments.seed)
        start = time.perf_counter()
        source = open_source(str(folder), kind=None, options=SourceOptions(segments="cut"))
        run_import(ImportPlan(sources=(source,), output=str(output)))
        seconds = time.perf_counter() - start
        print(machine_facts())
        print(f"{count_equal(folder, output):,} segments of {len(FORMATS)} formats are equal; cut in {seconds:.1f} s")


if __name__ == "__main__":
    main()
