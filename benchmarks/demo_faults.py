"""Write two datasets of photographs and a mix, with planted faults, for the how-to on finding faults.

usage: python benchmarks/demo_faults.py FOLDER

The faults: a broken picture, 30 samples with the picture of another one, a caption in German, and a dataset that the
mix names twice.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
from itertools import cycle, islice
from pathlib import Path

from demo_photographs import add_file, captioned_crops
from PIL import Image

__all__ = ["write_faulty_data"]

SAMPLES, SHARDS = 120, 4
BROKEN = 57
DUPLICATES = range(80, 110)
GERMAN = 23
MIX = """\
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    blend:
    - {weight: 3, path: photos}
    - {weight: 1, path: more}
    - {weight: 1, path: photos}
"""


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    write_faulty_data(Path(sys.argv[1]))


def write_faulty_data(folder: Path) -> None:
    """Write the shards of ``photos`` and ``more``, not prepared, and ``mix.yaml``."""
    shutil.rmtree(folder, ignore_errors=True)
    parts = [
        {"jpg": encoded(image, number), "json": json.dumps({"caption": caption, "lang": "en"}).encode()}
        for number, (image, caption) in enumerate(islice(cycle(list(captioned_crops())), SAMPLES + 40))
    ]
    for number in DUPLICATES:
        parts[number]["jpg"] = parts[number - 80]["jpg"]
    parts[BROKEN]["jpg"] = b"<!DOCTYPE html><title>404 Not Found</title>"
    parts[GERMAN]["json"] = json.dumps({"caption": "ein Hund auf einer Wiese", "lang": "de"}).encode()
    write_shards(folder / "photos", parts[:SAMPLES], SHARDS, first=0)
    write_shards(folder / "more", parts[SAMPLES:], 1, first=SAMPLES)
    (folder / "mix.yaml").write_text(MIX)


def encoded(image: Image.Image, number: int) -> bytes:
    """Return a JPEG of a crop that no other number has."""
    content = io.BytesIO()
    image.resize((160 + number, 160)).save(content, "JPEG", quality=85)
    return content.getvalue()


def write_shards(folder: Path, samples: list[dict[str, bytes]], shards: int, *, first: int) -> None:
    """Write samples to shards of equal length, with their numbers as keys."""
    folder.mkdir(parents=True)
    each = len(samples) // shards
    for shard in range(shards):
        with tarfile.open(folder / f"shard_{shard:03}.tar", "w") as tar:
            for number in range(shard * each, (shard + 1) * each):
                for name, data in samples[number].items():
                    add_file(tar, f"{first + number:06}.{name}", data)


if __name__ == "__main__":
    main()
