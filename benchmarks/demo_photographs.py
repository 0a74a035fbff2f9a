"""Write a small captioning dataset of photographs, for benchmarks and tests.

The photographs ship with scikit-image. Each sample is most of one, with a caption.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from PIL import Image

FOLDER = Path(__file__).parents[1] / ".venv" / "photographs" / "skimage" / "data"  # where `make setup` puts them
SAMPLES = 60
SHARDS = 4
SIZE = 224  # pixels, width and height
SHOWN = 0.85  # side of the square that a sample shows, of the photograph's shorter side
PLACES = {"top": 0.0, "middle": 0.5, "bottom": 1.0}

# file, caption
PHOTOGRAPHS = (
    ("astronaut.png", "an astronaut in an orange suit before a flag"),
    ("camera.png", "a photographer with a camera on a tripod"),
    ("chelsea.png", "a tabby cat looking to the side"),
    ("coffee.png", "a cup of coffee on a wooden table"),
    ("hubble_deep_field.jpg", "distant galaxies seen by a space telescope"),
    ("motorcycle_left.png", "a motorcycle parked in a garage"),
    ("retina.jpg", "the retina of an eye"),
    ("rocket.jpg", "a rocket on its launch pad"),
    ("ihc.png", "cells of the colon under a microscope"),
    ("coins.png", "old Greek coins in rows"),
)


def make_dataset(folder: Path) -> None:
    """Write `SAMPLES` samples into `SHARDS` shards, with the same bytes every time."""
    shutil.rmtree(folder, ignore_errors=True)
    shards = folder / "shards"
    shards.mkdir(parents=True)
    samples = enumerate(captioned_crops())
    for shard in range(SHARDS):
        with tarfile.open(shards / f"shard_{shard:03d}.tar", "w") as tar:
            for index, (image, caption) in islice(samples, SAMPLES // SHARDS):
                content = io.BytesIO()
                image.save(content, "JPEG", quality=90)
                add_file(tar, f"{index:06d}.jpg", content.getvalue())
                add_file(tar, f"{index:06d}.json", json.dumps({"caption": caption}).encode())
    size_bytes = sum(shard.stat().st_size for shard in shards.iterdir())
    print(f"wrote {SAMPLES} captioned photographs into {SHARDS} shards in {folder} ({size_bytes / 1e6:.1f} MB)")


def add_file(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    header = tarfile.TarInfo(name)
    header.size = len(content)
    tar.addfile(header, io.BytesIO(content))


def captioned_crops() -> Iterator[tuple[Image.Image, str]]:
    """Yield squares of the photographs in turn, each at a random column and one of three heights."""
    random_numbers = random.Random(0)
    photographs = [(open_photograph(name), caption) for name, caption in PHOTOGRAPHS]
    for index in range(SAMPLES):
        image, caption = photographs[index % len(photographs)]
        side = round(SHOWN * min(image.size))
        place = random_numbers.choice(list(PLACES))
        left = random_numbers.randint(0, image.width - side)
        top = round(PLACES[place] * (image.height - side))
        square = image.resize((SIZE, SIZE), box=(left, top, left + side, top + side))
        yield square, f"{caption} ({place} of the picture)"


def open_photograph(name: str) -> Image.Image:
    """Open a picture of scikit-image, whose code is neither installed nor imported."""
    if not FOLDER.is_dir():
        raise SystemExit("the photographs of scikit-image are missing; run: make setup")
    return Image.open(FOLDER / name).convert("RGB")
