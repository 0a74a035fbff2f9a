"""Suggestions by rule: which change of the loader would save how much of the training loop's time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

_NOTHING = 0.02  # share of the time; below, there is nothing to gain
_SOME = 0.005  # share of the time that a cause must have to be named
_MAX_WORKERS_MORE = 64
_IDLE = 0.2  # of the workers' time
_LOOP = 0.01  # share of the time that a training loop works itself; below, the loader is only timed
_MIN_S = 0.5  # of a run, to draw conclusions from


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The measurements that the rules use.

    Attributes:
        elapsed_s: Seconds of the run.
        waited_s: Seconds in which the training loop waited.
        waited_for: These by cause.
        worker_s: Seconds of the workers by activity, with ``idle``.
        workers: Number of workers; 0 if the training loop makes the micro-batches.
        rss_bytes: Resident memory of the loader's processes together.
        memory_bytes: Memory of the machine or container; 0 if it is not known.
        decodes: What is decoded, such as ``JPEG``.
    """

    elapsed_s: float
    waited_s: float
    waited_for: Mapping[str, float]
    worker_s: Mapping[str, float]
    workers: int
    rss_bytes: int = 0
    memory_bytes: int = 0
    decodes: str = ""

    @property
    def running_s(self) -> float:
        """Seconds without the waits for the start of the workers."""
        return max(1e-9, self.elapsed_s - self.waited_for.get("start", 0.0))


def suggestions(facts: Facts) -> tuple[str, ...]:
    """Return suggestions, the most useful first; none for a run that was too short.

    >>> facts = Facts(elapsed_s=100, waited_s=60, waited_for={"decode": 50.0, "other": 10.0}, workers=2, decodes="JPEG",
    ...     worker_s={"decode": 150.0, "other": 40.0, "idle": 10.0})
    >>> for line in suggestions(facts): print(line)
    bound by JPEG decode: 50.0 % of the time was spent waiting for it; 3 more workers would hide it
    """
    if facts.elapsed_s < _MIN_S or not facts.waited_for:
        return ()
    found = _of_memory(facts)
    start_s = facts.waited_for.get("start", 0.0)
    rest_s = facts.waited_s - start_s
    if rest_s < _NOTHING * facts.running_s:
        found.append(f"nothing to gain: the training loop waited {100 * rest_s / facts.running_s:.1f} % of the time")
    else:
        found += _of_causes(facts)
    if start_s > 0.1 * facts.elapsed_s:
        found.append(
            f"{start_s:.1f} s went by until the workers had made their first micro-batches; call loader.start() before "
            "the model is built"
        )
    return tuple(found)


def _of_memory(facts: Facts) -> list[str]:
    if not facts.memory_bytes or facts.rss_bytes < 0.8 * facts.memory_bytes:
        return []
    used, memory = facts.rss_bytes / 1e9, facts.memory_bytes / 1e9
    remedy = "use fewer workers, a smaller prefetch_factor or smaller buffers"
    return [f"memory: the workers and this process use {used:.1f} GB of {memory:.1f} GB; {remedy}"]


def _of_causes(facts: Facts) -> list[str]:
    waits = {name: seconds for name, seconds in facts.waited_for.items() if name != "start"}
    cause, seconds = max(waits.items(), key=lambda item: item[1])
    if seconds < _SOME * facts.running_s:
        return []
    what = f"{facts.decodes} decode" if cause == "decode" and facts.decodes else cause
    share = f"{100 * seconds / facts.running_s:.1f} % of the time was spent waiting for it"
    if cause == "replacement":
        remedy = "the log names their samples; quarantine='FILE' passes over those that end workers again and again"
        return [f"bound by replaced workers: {share}; {remedy}"]
    if cause == "other":
        return [f"bound by the pipeline's own work: {share}; larger samples per read or more workers would help"]
    if cause == "transport":
        remedy = "make micro-batches smaller, or use worker_type='thread' if hooks release Python's lock"
        return [f"bound by transport: {share}; {remedy}"]
    return [f"bound by {what}: {share}; {_remedy(facts, cause)}"]


def _remedy(facts: Facts, cause: str) -> str:
    """Return what would hide a cause: as many workers as make the micro-batches in the time of the training loop."""
    loop_s = max(1e-9, facts.elapsed_s - facts.waited_s)
    busy_s = sum(seconds for name, seconds in facts.worker_s.items() if name != "idle")
    workers = max(1, facts.workers)
    more = ceil(busy_s / loop_s) - facts.workers
    idle_share = facts.worker_s.get("idle", 0.0) / max(1e-9, busy_s + facts.worker_s.get("idle", 0.0))
    if facts.workers and idle_share > _IDLE:
        return f"the workers were idle for {100 * idle_share:.1f} %, so waits come in bursts: raise prefetch_factor"
    if loop_s < _LOOP * facts.running_s:
        return "the training loop does nothing itself, so nothing hides it; more workers shorten it, up to one a core"
    if more <= 0:
        more = 1
    if more > _MAX_WORKERS_MORE:
        return f"it takes {busy_s / loop_s:.0f} workers to hide it, so make it faster, or do it once before training"
    plural = "s" if more > 1 else ""
    of = "more worker" if facts.workers else "worker"
    hint = " (or a cache, or larger reads)" if cause == "storage" else ""
    return f"{more} {of}{plural} would hide it{hint}" if workers else ""
