"""Compute values of samples that are no columns, for conditions, orders and groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...accounting.large_parts import CHECKED_JSON_BYTES
from ...arrays import IntArray
from ...dataset.dataset import Dataset
from ...dataset.query.condition import Values
from ...escaped_log import get_logger
from ...format.documents.value_name import ValueName
from ...format.worker_pool import run_in_workers
from .scan import ScanTask, as_array, scan_samples
from .values import Value

_log = get_logger(__name__)
_MAX_TIMED = 64  # samples that an estimate reads
_MAX_TIMED_S = 1.0


class ValueEstimate(NamedTuple):
    """About how long values take, by some samples from all over the dataset."""

    seconds: float
    samples: int
    existing: tuple[ValueName, ...]


def estimate_values(folder: Dataset, names: Sequence[ValueName], samples: IntArray, *, workers: int) -> ValueEstimate:
    """Return about how long :func:`compute_values` takes, and which of the values exist."""
    if not len(samples):
        return ValueEstimate(0.0, 0, ())
    tasks = list(_task(folder, names, _some(samples)).of_shards(folder))
    scan_samples(tasks[0])  # the first one loads packages
    timed, existing, started = 0, set[str](), time.monotonic()
    for task in tasks:
        result = scan_samples(task)
        existing |= {name for name, (_, values) in result.kept.items() if values}
        timed += result.samples
        if time.monotonic() - started > _MAX_TIMED_S:
            break
    seconds = (time.monotonic() - started) / timed * len(samples) / workers
    return ValueEstimate(seconds, timed, tuple(name for name in names if str(name) in existing))


def value_names(folder: Dataset, samples: IntArray) -> list[str]:
    """Return the names of the values that some of the samples have, sorted."""
    tasks = replace(_task(folder, (), _some(samples)), kept_only=False).of_shards(folder)
    return sorted(
        {name for task in tasks for result in [scan_samples(task)] for name in (*result.numbers, *result.texts)}
    )


def _some(samples: IntArray) -> IntArray:
    return samples[np.unique(np.linspace(0, len(samples) - 1, _MAX_TIMED).astype(np.int64))]


def compute_values(
    folder: Dataset,
    names: Sequence[ValueName],
    samples: IntArray,
    *,
    workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[ValueName, Values]:
    """Read values of samples; broken parts have none, and a log names those that are too large to be parsed.

    Args:
        samples: Numbers of the samples, ascending.

    Returns:
        Name → values of shape (samples,).
    """
    kept: dict[str, dict[int, Value]] = {str(name): {} for name in names}
    done = large = 0
    for _, result in run_in_workers(
        scan_samples, list(_task(folder, names, samples).of_shards(folder)), workers=workers
    ):
        for name, (numbers, values) in result.kept.items():
            kept[name].update(zip(numbers, values, strict=True))
        done, large = done + result.samples, large + result.large_count
        if on_progress is not None:
            on_progress(done, len(samples))
    if large:
        _log.warning("%d JSON parts of more than %d bytes are not parsed, so have no values", large, CHECKED_JSON_BYTES)
    return {name: _as_values(kept[str(name)], samples) for name in names}


def _task(folder: Dataset, names: Sequence[ValueName], samples: IntArray) -> ScanTask:
    return ScanTask(
        ref=folder.ref,
        samples=samples,
        kept=tuple(names),
        kept_only=True,
        max_json_bytes=CHECKED_JSON_BYTES,
    )


def _as_values(values: dict[int, Value], samples: IntArray) -> Values:
    """Return the values of all samples; where some are texts, all are."""
    numbers = samples.tolist()
    known = np.array([number in values for number in numbers], np.bool_)
    if any(isinstance(value, str) for value in values.values()):
        texts = sorted({str(value) for value in values.values()})
        codes = {text: code for code, text in enumerate(texts)}
        positions = [codes[str(values[number])] if number in values else -1 for number in numbers]
        return Values(np.array(positions, np.int64), known, tuple(texts))
    return Values(as_array([values.get(number, 0) for number in numbers]), known)
