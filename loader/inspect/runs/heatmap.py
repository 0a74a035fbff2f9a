"""Show how the samples of a run are spread over its steps: counts, and a picture of steps and samples."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ConfigError
from .trace import trace_step

if TYPE_CHECKING:
    from .planned_run import PlannedRun

__all__ = ["SampleUses", "traced_uses"]


@dataclass(frozen=True, slots=True)
class SampleUses:
    """The samples that each step used; one entry for each use.

    Attributes:
        steps: Number of the step, from 0.
        samples: Number of the sample in the sorted list of used samples.
        times: How often each of these samples was used.
    """

    steps: np.ndarray[Any, np.dtype[np.int64]]
    samples: np.ndarray[Any, np.dtype[np.int64]]
    times: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def of(cls, steps: Sequence[int], names: Sequence[Any]) -> SampleUses:
        """Return the uses of samples; their names define the order.

        Raises:
            ConfigError: There are none.
        """
        if not steps:
            raise ConfigError("no step has a sample", hint="check the number of steps")
        numbers = {name: number for number, name in enumerate(sorted(set(names)))}
        samples = np.fromiter((numbers[name] for name in names), np.int64, len(names))
        return cls(np.asarray(steps, np.int64), samples, np.bincount(samples))

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

    def picture(self, *, width: int, height: int) -> bytes:
        """Return a PNG: steps from left to right, samples from top to bottom, and brighter where more were used.

        Args:
            width: Pixels, at most; each is one or more neighbouring steps.
            height: Pixels, at most; each is one or more neighbouring samples.
        """
        from PIL import Image

        last = int(self.steps.max()) + 1
        width, height = min(width, last), min(height, len(self.times))
        columns, rows = self.steps * width // last, self.samples * height // len(self.times)
        counts = np.bincount(rows * width + columns, minlength=width * height).reshape(height, width)
        pixels = (np.sqrt(counts / counts.max()) * 255).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        return file.getvalue()


def traced_uses(run: PlannedRun, steps: int) -> SampleUses:
    """Return which samples the first steps of a run use, in the order of the datasets, from its arguments alone."""
    found = [sample for step in range(steps) for sample in trace_step(run, step)]
    return SampleUses.of([one.step for one in found], [(one.dataset, one.index) for one in found])
