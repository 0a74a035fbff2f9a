"""Show how the samples of a run are spread over its steps: counts, and a picture of steps and samples."""

from __future__ import annotations

import io
from collections.abc import Sequence
from colorsys import hsv_to_rgb
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ConfigError
from .trace import trace_step

if TYPE_CHECKING:
    from .planned_run import PlannedRun


@dataclass(frozen=True, slots=True)
class SampleUses:
    """The samples that each step used; one entry for each use.

    Attributes:
        steps: Number of the step, from 0.
        samples: Number of the sample in the sorted list of used samples.
        ranks: The rank that used it.
        times: How often each of these samples was used.
    """

    steps: np.ndarray[Any, np.dtype[np.int64]]
    samples: np.ndarray[Any, np.dtype[np.int64]]
    ranks: np.ndarray[Any, np.dtype[np.int64]]
    times: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def of(cls, steps: Sequence[int], names: Sequence[Any], ranks: Sequence[int]) -> SampleUses:
        """Return the uses of samples; their names define the order.

        Raises:
            ConfigError: There are none.
        """
        if not steps:
            raise ConfigError("no step has a sample", hint="check the number of steps, and of those that are skipped")
        numbers = {name: number for number, name in enumerate(sorted(set(names)))}
        samples = np.fromiter((numbers[name] for name in names), np.int64, len(names))
        return cls(np.asarray(steps, np.int64), samples, np.asarray(ranks, np.int64), np.bincount(samples))

    def facts(self) -> dict[str, Any]:
        """Return counts, and the correlation of step and place in the sorted samples.

        The correlation is 1 if samples are read in order, near 0 if they are shuffled well, and None if there is only
        one step or sample.
        """
        correlates = np.ptp(self.steps) > 0 and np.ptp(self.samples) > 0
        return {
            "steps": len(np.unique(self.steps)),
            "uses": len(self.steps),
            "unique": len(self.times),
            "repeated": int((self.times > 1).sum()),
            "most_uses": int(self.times.max()),
            "correlation": float(np.corrcoef(self.steps, self.samples)[0, 1]) if correlates else None,
        }

    def picture(self, *, width: int, height: int, gain: float = 1.0, colors: bool = True) -> bytes:
        """Return a PNG: steps from left to right, samples from top to bottom, and brighter where more were used.

        Args:
            width: Pixels, at most; each is one or more neighbouring steps.
            height: Pixels, at most; each is one or more neighbouring samples.
            gain: Multiplies the brightness.
            colors: Draw each rank in a colour of its own, if there are several.
        """
        from PIL import Image

        first = int(self.steps.min())
        span = int(self.steps.max()) + 1 - first
        width, height = min(width, span), min(height, len(self.times))
        columns, rows = (self.steps - first) * width // span, self.samples * height // len(self.times)
        places = rows * width + columns

        def counted(weights: np.ndarray[Any, np.dtype[np.float64]] | None) -> np.ndarray[Any, np.dtype[np.float64]]:
            return np.bincount(places, weights, minlength=width * height).reshape(height, width).astype(np.float64)

        counts = counted(None)
        brightness = np.minimum(np.sqrt(counts / counts.max()) * gain, 1) * 255
        numbers, ranks = np.unique(self.ranks, return_inverse=True)
        if colors and len(numbers) > 1:
            palette = np.array([hsv_to_rgb(number / len(numbers), 0.75, 1) for number in range(len(numbers))])
            shares = np.stack([counted(palette[ranks, channel]) for channel in range(3)], axis=-1)
            pixels = brightness[..., None] * shares / np.maximum(counts, 1)[..., None]
        else:
            pixels = brightness
        file = io.BytesIO()
        Image.fromarray(pixels.astype(np.uint8)).save(file, "PNG")
        return file.getvalue()


def traced_uses(run: PlannedRun, steps: int, *, skip: int = 0) -> SampleUses:
    """Return which samples the first steps of a run use, in the order of the datasets, from its arguments alone.

    Args:
        run: The run.
        steps: Number of steps, with those that are skipped.
        skip: Number of the first step.
    """
    found = [sample for step in range(skip, steps) for sample in trace_step(run, step)]
    return SampleUses.of(
        [one.step for one in found], [(one.dataset, one.index) for one in found], [one.rank for one in found]
    )
