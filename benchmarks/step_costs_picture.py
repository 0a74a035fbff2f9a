"""Draw what the ranks of a run do in each step, without a plan and with one, for the page on equal work.

usage: python benchmarks/step_costs_picture.py FOLDER FILE.svg

FOLDER is a dataset of unequal_data.py. A process serves 8 data ranks, and counts the tokens of the micro-batches that
it gets: those that a run on 8 ranks would get at these steps.
"""

from __future__ import annotations

import html
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from unequal_data import tokens_of_text

from loader import DefaultTaskEncoder, WorkerConfig, get_savable_loader, get_train_dataset
from loader.encoder_costs import qwen2_5_vl

RANKS, BATCH_SIZE, STEPS = 8, 8, 60
RUNS: dict[str, dict[str, Any]] = {"without a plan": {}, 'balance="tokens"': {"balance": "tokens"}}
WIDTH, HEIGHT, LEFT, TOP, GAP = 860, 190, 70, 56, 80  # pixels; of a panel, and around it

_Tokens = npt.NDArray[np.int64]


class Counted(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Replaces a sample by its number of tokens."""

    decoder = None

    def encode_sample(self, sample: Any) -> Any:
        width, height = Image.open(io.BytesIO(sample["png"])).size
        pictures = int(qwen2_5_vl([width], [height]).tokens[0])
        return {"__key__": sample["__key__"], "tokens": pictures + len(tokens_of_text(sample["txt"].decode()))}


def main(folder: Path, target: Path) -> None:
    runs = {title: tokens_of_steps(folder, options) for title, options in RUNS.items()}
    most = max(int(tokens.max()) for tokens in runs.values())
    panels = [panel(number, title, tokens, most) for number, (title, tokens) in enumerate(runs.items())]
    width, height = LEFT + WIDTH + 20, TOP + len(runs) * (HEIGHT + GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">',
        "<style>text { font-family: system-ui, sans-serif }</style>",
        '<title id="title">Tokens of the ranks in each step, without a plan and with balance</title>',
        f'<rect width="{width}" height="{height}" rx="12" fill="#ffffff"/>',
        *panels,
        "</svg>\n",
    ]
    target.write_text("\n".join(lines), encoding="utf-8")


def tokens_of_steps(folder: Path, options: dict[str, Any]) -> _Tokens:
    """Return the tokens of each micro-batch, shape (ranks, steps)."""
    dataset = get_train_dataset(
        folder,
        batch_size=BATCH_SIZE,
        shuffle_buffer_size=1000,
        max_samples_per_sequence=100,
        task_encoder=Counted(),
        worker_config=WorkerConfig(rank=0, world_size=RANKS, num_workers=0),
        **options,
    )
    with get_savable_loader(dataset, serves=range(RANKS)) as loader:
        steps = [[sum(batch["tokens"]) for batch in step] for _, step in zip(range(STEPS), loader, strict=False)]
    return np.array(steps).T


def panel(number: int, title: str, tokens: _Tokens, most: int) -> str:
    """Draw for each step the mean over the ranks, what the heaviest rank has above it, and a dot for each rank."""
    top = TOP + number * (HEIGHT + GAP)
    scale, step = HEIGHT / most, WIDTH / STEPS
    ratios = tokens.max(axis=0) / tokens.mean(axis=0)
    heading = f"{title}: the heaviest rank has {ratios.mean():.2f} times the mean, at most {ratios.max():.2f}"
    parts = [text(LEFT, top - 20, heading, 'font-size="15" font-weight="600" fill="#263238"')]
    for value in range(0, most + 1, 5000):
        y = top + HEIGHT - value * scale
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#eceff1"/>')
        parts.append(text(LEFT - 8, y + 4, f"{value:,}", 'font-size="12" text-anchor="end" fill="#607d8b"'))
    for place, ranks in enumerate(tokens.T):
        x, mean, largest = LEFT + place * step, ranks.mean(), ranks.max()
        for below, above, colour in ((0, mean, "#90caf9"), (mean, largest, "#ffab91")):
            y, height = top + HEIGHT - above * scale, (above - below) * scale
            parts.append(
                f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{step - 2:.1f}" height="{height:.1f}" fill="{colour}"/>'
            )
        for value in ranks:
            y = top + HEIGHT - value * scale
            parts.append(f'<circle cx="{x + step / 2:.1f}" cy="{y:.1f}" r="1.6" fill="#37474f"/>')
    below = f"{STEPS} steps on {RANKS} ranks; a dot: tokens of a rank; blue: their mean; red: what all ranks wait for"
    parts.append(text(LEFT, top + HEIGHT + 20, below, 'font-size="12" fill="#607d8b"'))
    return "\n".join(parts)


def text(x: float, y: float, shown: str, style: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{html.escape(shown)}</text>'


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
