"""Write a dataset of unequal pictures and texts, with columns of what each sample costs.

usage: python benchmarks/unequal_data.py FOLDER [SAMPLES]

Photographs, pages of documents and icons have sizes and texts of log-normal lengths. The pictures are white: only
their sizes count.
"""

from __future__ import annotations

import io
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from loader import ShardWriter

SAMPLES = 60_000
KINDS = {  # share of the samples, mean of the longer side in pixels, aspect, mean words
    "photograph": (0.7, 640, 4 / 3, 55),
    "page": (0.1, 1700, 3 / 4, 245),
    "icon": (0.2, 160, 1, 55),
}
_WORDS = ("the", "a", "of", "to", "in", "on", "with", "and", "bird", "tree", "house", "street", "people")


def tokens_of_text(text: str) -> list[str]:
    """Return the tokens of a text: a word is one."""
    return text.split()


def write_unequal_dataset(folder: Path, samples: int) -> None:
    """Write a prepared dataset of the parts ``png`` and ``txt``."""
    random = np.random.default_rng(0)
    shares, sides, aspects, words = (np.array(column) for column in zip(*KINDS.values(), strict=True))
    kinds = random.choice(len(KINDS), samples, p=shares)
    widths = sides[kinds] * np.exp(random.normal(0, 0.35, samples))
    lengths = np.clip(words[kinds] * np.exp(random.normal(0, 0.8, samples)), 4, 1500).astype(int)
    heights = widths / aspects[kinds]
    with ShardWriter(folder, samples_per_shard=1000, split_ratio={"train": 1}) as writer:
        for number, (width, height, length) in enumerate(zip(widths, heights, lengths, strict=True)):
            size = [max(32, round(side / 32) * 32) for side in (width, height)]
            text = " ".join(random.choice(_WORDS, length))
            writer.write({"__key__": f"{number:06d}", "png": _white(*size), "txt": text})


def write_costs(folder: Path) -> None:
    """Write the columns ``vision_tokens`` and ``tokens``, among others."""
    energon = str(Path(sys.executable).with_name("energon"))
    tokenizer = ["--tokenizer", f"{Path(__file__).stem}:{tokens_of_text.__name__}", "--trust-code"]
    command = [energon, "stats", str(folder), *tokenizer, "--write-costs", "qwen2.5-vl"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={"PYTHONPATH": str(Path(__file__).parent)})


@cache
def _white(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("1", (width, height), 1).save(file, "png")
    return file.getvalue()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    target = Path(sys.argv[1])
    write_unequal_dataset(target, int(sys.argv[2]) if len(sys.argv) > 2 else SAMPLES)
    write_costs(target)
