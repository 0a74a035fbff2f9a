"""Small real folders of shards for the tests of the commands."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image


def picture(number: int, *, size: tuple[int, int] = (24, 16), form: str = "JPEG") -> bytes:
    """A gradient whose colours depend on the number."""
    width, height = size
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[..., 0] = np.linspace(0, 255, width, dtype=np.uint8)
    pixels[..., 1] = np.linspace(0, 255, height, dtype=np.uint8)[:, None]
    pixels[..., 2] = number * 37 % 256
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, form)
    return buffer.getvalue()


def caption_parts(number: int) -> dict[str, bytes]:
    return {
        "jpg": picture(number),
        "txt": f"picture number {number}".encode(),
        "json": json.dumps({"caption": f"a gradient, number {number}", "id": number}).encode(),
    }


def write_shard(path: Path, samples: dict[str, dict[str, bytes]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for key, parts in samples.items():
            for name, data in parts.items():
                member = tarfile.TarInfo(f"{key}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def write_captions(
    folder: Path,
    *,
    shards: int = 4,
    samples: int = 3,
    names: str = "shard_{:03d}.tar",
    parts: Callable[[int], dict[str, bytes]] = caption_parts,
) -> Path:
    """Shards of samples with the parts jpg, txt and json."""
    for shard in range(shards):
        numbers = range(shard * samples, (shard + 1) * samples)
        write_shard(folder / names.format(shard), {f"{number:06d}": parts(number) for number in numbers})
    return folder
