"""Write the datasets that the scripts of the comparison load.

captions    `.jpg`, `.txt` and `.json` of 100 samples in 5 shards, prepared as CaptioningWebdataset
crude       the same parts of 100 samples in 5 shards, prepared as CrudeWebdataset
texts       `.txt` of 500 samples in 10 shards, prepared as TextSample
small       the same of 55 samples in 1 shard
mix.yaml    a blend of `captions` (weight 1) and `captions2` (weight 3), with subflavors
lines.jsonl 60 objects

All samples of a dataset are in the split part train; `val` has the same number in shards of its own.
"""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

from PIL import Image
from webdataset import TarWriter

__all__ = ["write_datasets"]

MIX = """\
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    blend:
      - {weight: 1, path: ./captions, subflavors: {origin: one}}
      - {weight: 3, path: ./captions2, subflavors: {origin: two}}
  val:
    path: ./captions
"""
CAPTIONS = ("--sample-type", "CaptioningSample", "--field-map", '{"image": "jpg", "caption": "txt"}')
CRUDE = ("--sample-type", "CrudeWebdataset")
TEXTS = ("--sample-type", "TextSample", "--field-map", '{"text": "txt"}')


def write_datasets(folder: Path, energon: list[str]) -> None:
    """Write and prepare all datasets under ``folder`` with the command ``energon``."""
    for name, samples, shards, options in (
        ("captions", 100, 5, CAPTIONS),
        ("captions2", 40, 2, CAPTIONS),
        ("crude", 100, 5, CRUDE),
        ("texts", 500, 10, TEXTS),
        ("small", 55, 1, TEXTS),
    ):
        write_shards(folder / name, samples=samples, shards=shards, pictures=options is not TEXTS)
        split = ("--split-parts", "train:train/.*", "--split-parts", "val:val/.*")
        command = [*energon, "prepare", "--non-interactive", "--no-progress", "--compat", *split, *options]
        subprocess.run([*command, str(folder / name)], check=True, stdout=subprocess.DEVNULL)
    (folder / "mix.yaml").write_text(MIX)
    lines = [json.dumps({"text": f"line {number}", "number": number}) for number in range(60)]
    (folder / "lines.jsonl").write_text("\n".join(lines) + "\n")


def write_shards(folder: Path, *, samples: int, shards: int, pictures: bool) -> None:
    """Write the shards of the parts train and val."""
    for part in ("train", "val"):
        (folder / part).mkdir(parents=True)
        for shard in range(shards):
            with TarWriter(str(folder / part / f"shard_{shard:03}.tar")) as tar:
                for number in range(shard * samples // shards, (shard + 1) * samples // shards):
                    tar.write(sample(part, number, pictures=pictures))


def sample(part: str, number: int, *, pictures: bool) -> dict[str, object]:
    """Return a sample as the tar writer takes it."""
    text = f"{part} {number} " + "word " * (number % 7)
    parts: dict[str, object] = {"__key__": f"{part}_{number:05}", "txt": text.strip()}
    if pictures:
        parts["jpg"] = jpeg(number)
        parts["json"] = {"number": number, "part": part}
    return parts


def jpeg(number: int) -> bytes:
    """Return a small picture whose colour and size depend on the number."""
    picture = Image.new("RGB", (16 + number % 5, 12 + number % 3), (number % 256, 255 - number % 256, 80))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()
