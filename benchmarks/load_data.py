"""Write and prepare the datasets for the comparison of loaders, and read their samples for conversion.

json      one part per sample, about 150 bytes of json: measures only the work per sample
captions  jpg, txt and json, as written by `make_data.py images`

The scripts of the other libraries import this module in environments without our packages and with an older numpy, so
the functions that write import their dependencies themselves.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FIELDS", "SIZES", "Size", "make_loading_dataset", "read_samples", "samples_of_shard"]

_NOTE = "loading.json"  # what a folder contains
SENTENCES = 4096  # distinct texts of the json samples
FIELDS = {
    "json": ("--sample-type", "CrudeWebdataset"),
    "captions": ("--sample-type", "CaptioningSample", "--field-map", '{"image": "jpg", "caption": "txt"}'),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The number of samples and shards of a dataset."""

    samples: int
    shards: int


SIZES = {"json": Size(samples=400_000, shards=10), "captions": Size(samples=20_000, shards=10)}


def make_loading_dataset(kind: str, folder: Path, energon: Path, size: Size | None = None) -> None:
    """Write the shards and prepare them with our tool for both energons, unless an earlier run did."""
    size = size or SIZES[kind]
    note = folder / _NOTE
    content = json.dumps({"kind": kind, "samples": size.samples, "shards": size.shards, "version": 1})
    if note.exists() and note.read_text() == content:
        return
    for copy in folder.parent.glob(f"{folder.name}-*"):  # in other formats
        shutil.rmtree(copy)
    if kind == "json":
        write_json_shards(folder, size)
    else:
        from make_data import Recipe, make_dataset

        make_dataset(folder, Recipe(kind="images", samples=size.samples, shards=size.shards))
    options = ("--non-interactive", "--no-progress", "--force-overwrite", "--compat", "--split-ratio", "1,0,0")
    subprocess.run([energon, "prepare", *options, *FIELDS[kind], folder], check=True, stdout=subprocess.DEVNULL)
    note.write_text(content)


def samples_of_shard(folder: Path) -> int:
    """Return the number of samples of each shard of a dataset."""
    note = json.loads((folder / _NOTE).read_text())
    return int(note["samples"] // note["shards"])


def write_json_shards(folder: Path, size: Size) -> None:
    import numpy as np
    from make_data import BLOCK, END_OF_ARCHIVE, KEY_DIGITS, WORDS, digits, headers, padded, write_keys

    random_numbers = random.Random(0)
    no_id = "0" * KEY_DIGITS
    texts = [" ".join(random_numbers.choices(WORDS, k=random_numbers.randint(5, 50))) for _ in range(SENTENCES)]
    lines = [json.dumps({"id": no_id, "text": text}).encode() for text in texts]
    id_column = lines[0].index(no_id.encode())
    tar_headers, contents = headers("json", lines), padded(lines)
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(size.shards):
        samples = range(size.samples * shard // size.shards, size.samples * (shard + 1) // size.shards)
        chosen = np.random.default_rng(shard).integers(0, len(lines), len(samples))
        blocks = np.empty((len(samples), 2, BLOCK), np.uint8)
        blocks[:, 0], blocks[:, 1] = tar_headers[chosen], contents[chosen]
        blocks[:, 1, id_column : id_column + KEY_DIGITS] = digits(samples)
        write_keys(blocks, samples, rows=(0,))
        with (folder / f"shard_{shard:05d}.tar").open("wb") as file:
            file.write(blocks.reshape(-1).data)
            file.write(END_OF_ARCHIVE)


def read_samples(folder: Path) -> Iterator[dict[str, bytes]]:
    """Yield the samples of all shards in order, as dicts from part name to bytes."""
    for path in sorted(folder.glob("*.tar")):
        parts: dict[str, bytes] = {}
        last_key = None
        with tarfile.open(path) as shard:
            for member in shard:
                key, part_name = member.name.split(".", 1)
                if parts and key != last_key:
                    yield parts
                    parts = {}
                last_key = key
                file = shard.extractfile(member)
                parts[part_name] = file.read() if file else b""
        yield parts
