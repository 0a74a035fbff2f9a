"""Read the lines that loaders write at ``worker_debug_path``: which loader gave which samples at which step."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from colorsys import hsv_to_rgb
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from ...errors import ConfigError, StorageError, plural
from .trace import trace_step

if TYPE_CHECKING:
    from .planned_run import PlannedRun

_MAX_LINE_BYTES = 64 << 20  # read at a time: a longer line is none of a loader
_READ_EVENT = "._slices_iter.yield"  # of megatron-energon: a worker read a sample


class LoggedBatch(NamedTuple):
    """A micro-batch that reached a rank: its number there, from 0, and the keys of its samples."""

    step: int
    rank: int
    keys: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class LoggedLoader:
    """A loader in the logs of all ranks.

    Attributes:
        number: Its number: loaders that the ranks made one after another, from 0.
        start: 0, or how often the ranks had started again when they made it.
        modality: ``train`` or ``val``; empty if the logs do not say.
    """

    number: int
    start: int
    modality: str = ""
    paths: list[str] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    batches: list[LoggedBatch] = field(default_factory=list)

    @property
    def samples(self) -> int:
        """Number of samples in the micro-batches; those that come twice count twice."""
        return sum(len(batch.keys) for batch in self.batches)

    def uses(self, *, skip: int = 0) -> SampleUses:
        """Return which samples the steps from ``skip`` on used, ordered by their keys."""
        return _uses(self.batches, skip)


def read_debug_log(paths: Sequence[str]) -> list[LoggedLoader]:
    """Return the loaders of a run, from the logs of all its ranks and starts.

    Lines of workers, and lines that are cut off or of other programs, are not considered.

    Args:
        paths: Files of JSON lines, and folders with such ``.jsonl`` files.
    """
    loaders: dict[tuple[int, int], LoggedLoader] = {}
    starts: dict[tuple[int, int], int] = {}  # by rank and number of the loader
    for path in paths:
        for line in _lines(path, mark=b'"id"'):
            event, rank, loader_id = line.get("t"), line.get("r"), line.get("id")
            if not isinstance(event, str) or type(rank) is not int or type(loader_id) is not int:
                continue
            # A loader that a rank makes again, under the same number, is of another start.
            if event.endswith(".__init__"):
                starts[rank, loader_id] = starts.get((rank, loader_id), -1) + 1
            start = starts.get((rank, loader_id), 0)
            loader = loaders.setdefault((start, loader_id), LoggedLoader(number=loader_id, start=start))
            loader.ranks.add(rank)
            # Take its description, or a micro-batch that it gave.
            step, keys = line.get("global_idx", line.get("idx")), line.get("keys")
            if event.endswith(".__init__"):
                _describe(loader, line.get("config"))
            elif event.endswith(".yield") and type(step) is int and step >= 0 and isinstance(keys, list):
                loader.batches.append(LoggedBatch(step, rank, tuple(map(str, keys))))
    if not loaders:
        raise ConfigError(
            "these files have no line of a loader",
            at=", ".join(paths),
            hint="set worker_debug_path and worker_log_level=1 in the WorkerConfig, or pass --dataset, without logs",
        )
    return [loaders[key] for key in sorted(loaders)]


def choose_loader(
    loaders: Sequence[LoggedLoader], *, modalities: Sequence[str], number: int | None = None
) -> LoggedLoader:
    """Return the loader with this number, or the one of these modalities that gave most samples.

    Args:
        modalities: ``train``, ``val``.
        number: Number of the loader; None for any.
    """
    # A loader without micro-batches was only created.
    fitting = [
        loader
        for loader in loaders
        if loader.batches and (loader.modality in (*modalities, "") if number is None else loader.number == number)
    ]
    if not fitting:
        what = f"of {' or '.join(modalities)}" if number is None else f"with the number {number}"
        present = ", ".join(
            f"{loader.number} ({loader.modality or 'unknown'}, {plural(loader.samples, 'sample')})"
            for loader in loaders
        )
        raise ConfigError(
            f"no loader {what} gave a sample; the logs have {present}",
            hint="pass --include-modality or --force-loader-id",
        )
    return max(fitting, key=lambda loader: loader.samples)


def read_loading_order(paths: Sequence[str], *, skip: int = 0) -> SampleUses:
    """Return which samples workers read as their first, second, … one, before shuffling, by shard and key."""
    counts: dict[tuple[int, int], int] = {}  # by rank and worker
    read: list[LoggedBatch] = []
    for path in paths:
        for line in _lines(path, mark=_READ_EVENT.encode()):
            event, rank, worker = line.get("t"), line.get("r"), line.get("w")
            if not (isinstance(event, str) and event.endswith(_READ_EVENT)) or not type(rank) is type(worker) is int:
                continue
            position = counts[rank, worker] = counts.get((rank, worker), -1) + 1
            read.append(LoggedBatch(position, rank, (f"{line.get('shard')}/{line.get('key')}",)))
    if not read:
        raise ConfigError(
            "these files have no line of a worker that read a sample",
            at=", ".join(paths),
            hint="only megatron-energon writes such lines; energon trace lists the samples of runs of this library",
        )
    return _uses(read, skip)


def _uses(batches: Sequence[LoggedBatch], skip: int) -> SampleUses:
    return SampleUses.of(
        [(batch.step, key, batch.rank) for batch in batches if batch.step >= skip for key in batch.keys]
    )


def log_files(path: str) -> list[str]:
    """Return the files of a log: the path itself, or the ``.jsonl`` files of a folder."""
    if not os.path.isdir(path):
        return [path]
    return sorted(entry.path for entry in os.scandir(path) if entry.name.endswith(".jsonl"))


def _lines(path: str, *, mark: bytes) -> Iterator[dict[str, Any]]:
    try:
        for name in log_files(path):
            with open(name, "rb") as file:
                yield from _objects(file, mark)
    except OSError as error:
        raise StorageError(f"cannot read this log: {error.strerror}", path=path, hint="check the path") from error


def _objects(file: BinaryIO, mark: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects of the lines that have a mark; most lines of a log do not."""
    while line := file.readline(_MAX_LINE_BYTES):
        if mark not in line:
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # a killed process leaves half a line
            continue
        if isinstance(value, dict):
            yield value


def _describe(loader: LoggedLoader, config: Any) -> None:
    # Descriptions are nested as the datasets are, without a fixed depth.
    waiting = [config]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, dict):
            if isinstance(value.get("training"), bool):
                loader.modality = "train" if value["training"] else "val"
            path = value.get("_path")
            if isinstance(path, str) and path not in loader.paths:
                loader.paths.append(path)
            waiting += (inner for key, inner in value.items() if key != "shards")  # they have paths, too
        elif isinstance(value, list):
            waiting += value


@dataclass(frozen=True, slots=True)
class SampleUses:
    """The samples that each step used; one entry for each use.

    Attributes:
        steps: Number of the step, from 0.
        samples: Number of the sample in the sorted list of used samples.
    """

    steps: np.ndarray[Any, np.dtype[np.int64]]
    samples: np.ndarray[Any, np.dtype[np.int64]]
    ranks: np.ndarray[Any, np.dtype[np.int64]]
    times: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def of(cls, uses: Sequence[tuple[int, Any, int]]) -> SampleUses:
        """Return uses of samples from their steps, names and ranks; the names define the order."""
        if not uses:
            raise ConfigError("no step has a sample", hint="check the number of steps, and of those that are skipped")
        steps, names, ranks = zip(*uses, strict=True)
        numbers = {name: index for index, name in enumerate(sorted(set(names)))}
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
            colors: Draw each rank in a colour of its own, if there are several.
        """
        from PIL import Image

        # Map each use to a pixel.
        first = int(self.steps.min())
        span = int(self.steps.max()) + 1 - first
        width, height = min(width, span), min(height, len(self.times))
        columns, rows = (self.steps - first) * width // span, self.samples * height // len(self.times)
        places = rows * width + columns

        def counted(weights: np.ndarray[Any, np.dtype[np.float64]] | None) -> np.ndarray[Any, np.dtype[np.float64]]:
            return np.bincount(places, weights, minlength=width * height).reshape(height, width).astype(np.float64)

        # Draw more uses brighter; the root shows few uses next to many.
        counts = counted(None)
        brightness = np.minimum(np.sqrt(counts / counts.max()) * gain, 1) * 255
        numbers, ranks = np.unique(self.ranks, return_inverse=True)
        # Mix the colours of the ranks by their shares of a pixel.
        if colors and len(numbers) > 1:
            palette = np.array([hsv_to_rgb(rank_index / len(numbers), 0.75, 1) for rank_index in range(len(numbers))])
            shares = np.stack([counted(palette[ranks, channel]) for channel in range(3)], axis=-1)
            pixels = brightness[..., None] * shares / np.maximum(counts, 1)[..., None]
        else:
            pixels = brightness
        # Encode the picture.
        file = io.BytesIO()
        Image.fromarray(pixels.astype(np.uint8)).save(file, "PNG")
        return file.getvalue()


def traced_uses(run: PlannedRun, steps: int, *, skip: int = 0) -> SampleUses:
    """Return which samples the steps from ``skip`` on use by the arguments of the run, in the order of the datasets."""
    samples = (sample for step in range(skip, steps) for sample in trace_step(run, step))
    return SampleUses.of([(traced.step, (traced.dataset, traced.index), traced.rank) for traced in samples])
