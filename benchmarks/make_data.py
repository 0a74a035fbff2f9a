"""Write the datasets for the benchmarks.

usage: python benchmarks/make_data.py KIND FOLDER [--samples N] [--shards N]

tiny     two parts per sample, json and txt, of a hundred bytes each (default: 1,000,000 samples in 25 shards, 2 GB)
hollow   two empty parts per sample, like a huge dataset for a header scan (default: 10,000,000 in 250 shards, 10 GB)
images   jpg, txt and json; the pictures are crops of real photographs, for realistic decoding times
         (default: 20,000 samples in 10 shards, about 600 MB)

Keys are unique within a dataset. The same arguments write the same bytes. All tiny and hollow samples have the same
layout, so whole shards are built as arrays: a million samples take seconds.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from demo_photographs import PHOTOGRAPHS, open_photograph
from PIL import Image

BLOCK = 512  # bytes; a tar file consists of blocks
END_OF_ARCHIVE = bytes(2 * BLOCK)
KEY_DIGITS = 9
SENTENCES = 4096  # distinct texts of the tiny samples
PICTURES = 1500  # distinct pictures of the image samples
WORDS = (
    "a",
    "the",
    "cat",
    "dog",
    "house",
    "red",
    "blue",
    "tree",
    "sky",
    "runs",
    "sits",
    "over",
    "under",
    "photo",
    "on",
    "with",
)
COMPLETE = "complete.json"  # written last, with the recipe of the folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The kind and size of a dataset."""

    kind: str
    samples: int
    shards: int
    salt: int = 0  # changes the contents, but not the keys

    def first_sample(self, shard: int) -> int:
        return self.samples * shard // self.shards


DEFAULTS = {
    "tiny": Recipe(kind="tiny", samples=1_000_000, shards=25),
    "hollow": Recipe(kind="hollow", samples=10_000_000, shards=250),
    "images": Recipe(kind="images", samples=20_000, shards=10),
}


def make_dataset(folder: Path, recipe: Recipe) -> None:
    """Write the shards into a folder, unless an earlier run did."""
    note = folder / COMPLETE
    content = json.dumps({"kind": recipe.kind, "samples": recipe.samples, "shards": recipe.shards, "version": 1})
    if note.exists() and note.read_text() == content:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for shard in range(recipe.shards):
        make_shard(folder, recipe, shard)
    note.write_text(content)


def make_shard(folder: Path, recipe: Recipe, shard: int, *, omit: int = 0) -> Path:
    """Write one shard, without its last ``omit`` samples."""
    samples = range(recipe.first_sample(shard), recipe.first_sample(shard + 1) - omit)
    path = folder / f"shard_{shard:05d}.tar"
    with path.open("wb") as file:
        file.write(WRITERS[recipe.kind](samples, recipe.salt))
        file.write(END_OF_ARCHIVE)
    return path


# ------------------------------------------------------------------------------------------- tiny and hollow samples


def tiny_shard(samples: range, salt: int) -> memoryview:
    """Build a shard of json + txt samples: each consists of two headers and two content blocks."""
    texts = sentences()
    chosen = np.random.default_rng((salt, samples.start)).integers(0, len(texts), len(samples))
    lines = [json.dumps({"id": "0" * KEY_DIGITS, "text": text}).encode() for text in texts]
    blocks = np.empty((len(samples), 4, BLOCK), np.uint8)
    blocks[:, 0] = headers("json", lines)[chosen]
    blocks[:, 1] = padded(lines)[chosen]
    blocks[:, 2] = headers("txt", [text.encode() for text in texts])[chosen]
    blocks[:, 3] = padded([text.encode() for text in texts])[chosen]
    id_column = lines[0].index(b"0" * KEY_DIGITS)
    blocks[:, 1, id_column : id_column + KEY_DIGITS] = digits(samples)
    write_keys(blocks, samples, rows=(0, 2))
    return blocks.reshape(-1).data


def hollow_shard(samples: range, salt: int) -> memoryview:
    """Build a shard of samples with two empty parts."""
    del salt  # no content varies
    blocks = np.empty((len(samples), 2, BLOCK), np.uint8)
    blocks[:, 0] = headers("json", [b""])[0]
    blocks[:, 1] = headers("txt", [b""])[0]
    write_keys(blocks, samples, rows=(0, 1))
    return blocks.reshape(-1).data


@cache
def sentences() -> list[str]:
    random_numbers = random.Random(0)
    return [" ".join(random_numbers.choices(WORDS, k=random_numbers.randint(5, 20))) for _ in range(SENTENCES)]


def headers(part_name: str, contents: list[bytes]) -> np.ndarray:
    """Return one header per content, with the key 000000000."""
    return padded([header("0" * KEY_DIGITS + "." + part_name, len(content)) for content in contents])


def padded(pieces: list[bytes]) -> np.ndarray:
    """Stack pieces of at most one block as rows, padded with zeros."""
    return np.frombuffer(b"".join(piece.ljust(BLOCK, b"\0") for piece in pieces), np.uint8).reshape(-1, BLOCK)


def digits(samples: range) -> np.ndarray:
    """Return the keys of the samples as rows of ASCII digits."""
    powers = 10 ** np.arange(KEY_DIGITS - 1, -1, -1)
    return (np.arange(samples.start, samples.stop)[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def write_keys(blocks: np.ndarray, samples: range, *, rows: tuple[int, ...]) -> None:
    """Replace the key 000000000 in the header rows of each sample, and correct the checksums."""
    keys = digits(samples)
    added = (keys - ord("0")).sum(axis=1, dtype=np.int64)
    octal = 8 ** np.arange(5, -1, -1)
    for row in rows:
        block = blocks[:, row]
        checksum = (block[:, 148:154] - ord("0")).astype(np.int64) @ octal + added
        block[:, 148:154] = checksum[:, None] // octal % 8 + ord("0")
        block[:, :KEY_DIGITS] = keys


def header(name: str, size_bytes: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size_bytes
    return member.tobuf(tarfile.USTAR_FORMAT)


# ------------------------------------------------------------------------------------------------------ image samples


def image_shard(samples: range, salt: int) -> bytes:
    """Build a shard of jpg + txt + json samples."""
    random_numbers = random.Random(f"{salt}, {samples.start}")
    pictures = jpeg_pictures()
    pieces: list[bytes] = []
    for index in samples:
        caption = " ".join(random_numbers.choices(WORDS, k=random_numbers.randint(5, 25)))
        facts = json.dumps({"id": index, "caption": caption})
        key = f"{index:0{KEY_DIGITS}d}"
        pieces += member(f"{key}.jpg", pictures[index % len(pictures)])
        pieces += member(f"{key}.txt", caption.encode())
        pieces += member(f"{key}.json", facts.encode())
    return b"".join(pieces)


def member(name: str, content: bytes) -> tuple[bytes, bytes, bytes]:
    return header(name, len(content)), content, bytes(-len(content) % BLOCK)


@cache
def jpeg_pictures() -> list[bytes]:
    """Return JPEG files of random crops of photographs, 224 to 512 pixels in width and height."""
    random_numbers = random.Random(0)
    photographs = [open_photograph(name) for name, _ in PHOTOGRAPHS]
    pictures = []
    for _ in range(PICTURES):
        photograph = random_numbers.choice(photographs)
        width = min(photograph.width, random_numbers.randint(200, 500))
        height = min(photograph.height, random_numbers.randint(200, 500))
        left = random_numbers.randint(0, photograph.width - width)
        top = random_numbers.randint(0, photograph.height - height)
        size = random_numbers.randint(224, 512), random_numbers.randint(224, 512)
        crop = photograph.crop((left, top, left + width, top + height)).resize(size, Image.Resampling.BICUBIC)
        content = io.BytesIO()
        crop.save(content, "JPEG", quality=random_numbers.randint(75, 95))
        pictures.append(content.getvalue())
    return pictures


WRITERS: dict[str, Callable[[range, int], bytes | memoryview]] = {
    "tiny": tiny_shard,
    "hollow": hollow_shard,
    "images": image_shard,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(DEFAULTS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int)
    parser.add_argument("--shards", type=int)
    arguments = parser.parse_args()
    default = DEFAULTS[arguments.kind]
    recipe = Recipe(
        kind=arguments.kind,
        samples=arguments.samples or default.samples,
        shards=arguments.shards or default.shards,
    )
    make_dataset(arguments.folder, recipe)
    size_bytes = sum(path.stat().st_size for path in arguments.folder.glob("*.tar"))
    print(f"{recipe.samples:,} samples in {recipe.shards} shards, {size_bytes / 1e6:,.1f} MB: {arguments.folder}")


if __name__ == "__main__":
    main()
