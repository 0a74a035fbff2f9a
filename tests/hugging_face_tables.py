"""Write Parquet files as Hugging Face datasets writes them: pictures, sounds and classes in columns."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Audio, ClassLabel, Dataset, Features, Image, Sequence, Value
from datasets.table import InMemoryTable
from PIL import Image as Pictures

CLASSES = ["cat", "dog"]
FEATURES = Features(
    {
        "image": Image(),
        "label": ClassLabel(names=CLASSES),
        "views": Sequence(Image()),
        "sound": Audio(),
        "noise": Value("binary"),
    }
)


def picture(number: int, *, form: str = "PNG", side: int = 16) -> bytes:
    """Return the bytes of a picture, whose first pixel has the number."""
    pixels = np.random.default_rng(number).integers(0, 255, (side, side, 3), dtype=np.uint8)
    pixels[0, 0] = number % 256
    file = io.BytesIO()
    Pictures.fromarray(pixels).save(file, form)
    return file.getvalue()


def sound(number: int) -> bytes:
    """Return the bytes of a WAV file of a hundred samples."""
    data = np.full(100, number, "<i2").tobytes()
    head = b"RIFF" + (36 + len(data)).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little")
    form = (1).to_bytes(2, "little") * 2 + (8000).to_bytes(4, "little") + (16000).to_bytes(4, "little")
    return head + form + b"\2\0\x10\0data" + len(data).to_bytes(4, "little") + data


def table_row(number: int) -> dict[str, Any]:
    return {
        "image": {"bytes": picture(number), "path": f"{number}.png"},
        "label": number % len(CLASSES),
        "views": [{"bytes": picture(number + view, form="JPEG"), "path": None} for view in range(number % 3)],
        "sound": {"bytes": sound(number), "path": "a.wav"},
        "noise": np.random.default_rng(number).bytes(4000),
    }


def write_table(path: Path, numbers: range, *, columns: list[str] | None = None, group: int = 8) -> Path:
    """Write the rows of some numbers, or some of their columns, by the ``datasets`` package."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = columns or list(FEATURES)
    rows = [{name: value for name, value in table_row(number).items() if name in names} for number in numbers]
    features = Features({name: FEATURES[name] for name in names})
    # Encoding sounds needs a package that reads media; the table has their bytes already.
    table = InMemoryTable(pa.Table.from_pylist(rows, schema=features.arrow_schema))
    Dataset(table).to_parquet(path, batch_size=group)
    return path
