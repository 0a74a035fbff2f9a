"""The rows of the table on loading: the jobs of each library, and the targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["LIBRARIES", "OURS", "OVERHEAD", "PEER", "ROWS", "Figures", "Job", "Row", "Verdict"]

OURS = "energon-toolkit"
PEER = "megatron-energon"
LIBRARIES = (OURS, PEER, "webdataset", "mosaicml-streaming", "litdata", "lancedb")
OVERHEAD = "overhead"  # not a library: the stages of our pipeline

SAMPLES = {"json": "48000", "captions": "1920"}
KIB, MIB = 1024, 1024 * 1024
Figures = dict[str, float]  # the report of one process, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A process that runs once per round."""

    library: str
    task: str
    kind: str
    options: tuple[str, ...] = ()
    state: str = ""  # name of the state file that it writes or reads

    def __str__(self) -> str:
        return " ".join([self.library, self.task, self.kind, *self.options])


Medians = Mapping[Job, Figures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a row, computed from the medians."""

    figures: Mapping[str, str]  # by library
    result: str = "–"
    met: bool | None = None  # None: a required figure is missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the table."""

    work: str
    target: str
    jobs: tuple[Job, ...]
    judge: Callable[[Medians], Verdict] = field(repr=False)


def times_faster(
    work: str, factor: float, jobs: tuple[Job, ...], figure: str, show: Callable[[float], str], *, alone: bool
) -> Row:
    """Build a row that requires a ratio to megatron-energon.

    Args:
        work: A description of the work.
        factor: The required ratio.
        jobs: One job per library.
        figure: The name of the figure in their reports.
        show: Formats the figure.
        alone: True requires that no other library is faster.
    """

    def judge(medians: Medians) -> Verdict:
        values = {job.library: medians[job][figure] for job in jobs if job in medians}
        shown = {library: show(value) for library, value in values.items()}
        if OURS not in values or PEER not in values:
            return Verdict(figures=shown)
        ours = values.pop(OURS)
        fastest = min(values, key=values.__getitem__)
        result, met = f"{values[PEER] / ours:.1f}×", values[PEER] / ours >= factor
        if alone and values[fastest] < ours:
            result, met = f"{result}, but {fastest} is {ours / values[fastest]:.1f}× faster", False
        return Verdict(figures=shown, result=result, met=met)

    return Row(work=work, target=f"≥ {factor:g}×", jobs=jobs, judge=judge)


def throughput(work: str, kind: str, workers: int, factor: float) -> Row:
    """Build a row on the time per sample, for all libraries."""
    options = ("--samples", SAMPLES[kind], "--workers", str(workers))
    jobs = tuple(Job(library=library, task="throughput", kind=kind, options=options) for library in LIBRARIES)
    return times_faster(work, factor, jobs, "microseconds", microseconds, alone=True)


def decoded_throughput(work: str, workers: int) -> Row:
    """Build a row on the time per sample of json that litdata, too, stores as it is, and decodes."""
    options = ("--samples", SAMPLES["json"], "--workers", str(workers))
    ours = Job(library=OURS, task="throughput", kind="json", options=options)
    other = Job(library="litdata", task="throughput", kind="json", options=(*options, "--stored-json"))

    def judge(medians: Medians) -> Verdict:
        values = {job.library: medians[job]["microseconds"] for job in (ours, other) if job in medians}
        shown = {library: microseconds(value) for library, value in values.items()}
        if len(values) < 2:
            return Verdict(figures=shown)
        ratio = values[other.library] / values[OURS]
        return Verdict(figures=shown, result=f"{ratio:.2f}×", met=ratio >= 1)

    return Row(work=work, target="no slower", jobs=(ours, other), judge=judge)


def padded_throughput(work: str, workers: int, factor: float) -> Row:
    """Build a row on the time per sample with padded batches, which only the energons have."""
    options = ("--samples", SAMPLES["captions"], "--workers", str(workers), "--padded")
    jobs = tuple(Job(library=library, task="throughput", kind="captions", options=options) for library in (OURS, PEER))
    return times_faster(work, factor, jobs, "microseconds", microseconds, alone=True)


def microseconds(value: float) -> str:
    return f"{value:.1f} µs" if value < 100 else f"{value:.0f} µs"


def milliseconds(value: float) -> str:
    return f"{value * 1e3:.0f} ms"


# -------------------------------------------------------------------------------------------------------------- state
# These rows use json samples: ten thousand decoded pictures per worker would not fit into 24 GiB.


def state_job(library: str, task: str, buffer: int) -> Job:
    return Job(
        library=library,
        task=task,
        kind="json",
        options=("--samples", "2000", "--workers", "2", "--buffer", str(buffer)),
        state=f"state-{buffer}",
    )


SAVED = {library: state_job(library, "save", 10_000) for library in (OURS, PEER)}
SAVED_WITH_100 = {library: state_job(library, "save", 100) for library in (OURS, PEER)}
RESTORED = {library: state_job(library, "restore", 10_000) for library in (OURS, PEER)}
FRESH_WITH_10_000 = Job(
    library=OURS, task="first", kind="json", options=("--samples", "2000", "--workers", "2", "--buffer", "10000")
)


def judge_state(medians: Medians) -> Verdict:
    shown = {library: f"{medians[job]['bytes'] / KIB:.1f} KiB" for library, job in SAVED.items() if job in medians}
    large, small = medians.get(SAVED[OURS]), medians.get(SAVED_WITH_100[OURS])
    if not large or not small:
        return Verdict(figures=shown)
    # The state contains the setting itself: 10000 has two digits more than 100.
    difference = large["bytes as json"] - small["bytes as json"] - len("10000") + len("100")
    comparison = "as with buffer 100" if difference == 0 else f"{difference:+.0f} bytes to buffer 100"
    return Verdict(
        figures=shown,
        result=f"{large['bytes as json'] / KIB:.1f} KiB as JSON, {comparison}",
        met=large["bytes"] <= 8 * KIB and difference == 0,
    )


def judge_restore(medians: Medians) -> Verdict:
    seconds = {library: medians[job]["seconds"] for library, job in RESTORED.items() if job in medians}
    shown = {library: milliseconds(value) for library, value in seconds.items()}
    if len(seconds) < 2 or FRESH_WITH_10_000 not in medians:
        return Verdict(figures=shown)
    of_fresh = seconds[OURS] / medians[FRESH_WITH_10_000]["seconds"]
    ratio = seconds[PEER] / seconds[OURS]
    return Verdict(
        figures=shown, result=f"{of_fresh:.2f}× a fresh start, {ratio:.1f}×", met=of_fresh <= 1.2 and ratio >= 5
    )


# ------------------------------------------------------------------------------------------------------------- memory


def memory_job(library: str, buffer: int) -> Job:
    return Job(
        library=library,
        task="memory",
        kind="captions",
        options=("--samples", "1920", "--workers", "2", "--buffer", str(buffer)),
    )


WITHOUT_BUFFER = {library: memory_job(library, 1) for library in (OURS, PEER)}
WITH_BUFFER = {OURS: memory_job(OURS, 10_000), PEER: memory_job(PEER, 1000)}


def judge_memory(medians: Medians) -> Verdict:
    extra = {
        library: (medians[WITH_BUFFER[library]]["bytes"] - medians[without]["bytes"]) / MIB
        for library, without in WITHOUT_BUFFER.items()
        if without in medians and WITH_BUFFER[library] in medians
    }
    shown = {library: f"{value:.1f} MiB" for library, value in extra.items()}
    if PEER in shown:
        shown[PEER] += " for 1,000"
    return Verdict(figures=shown, met=extra[OURS] <= 5 if OURS in extra else None)


# ----------------------------------------------------------------------------------------------------------- overhead

OVERHEAD_JOB = Job(library=OVERHEAD, task="overhead", kind="json")
PIPELINE = "the pipeline itself"


def judge_overhead(medians: Medians) -> Verdict:
    figures = medians.get(OVERHEAD_JOB)
    if not figures:
        return Verdict(figures={})
    return Verdict(figures={OURS: f"{figures[PIPELINE]:.1f} µs"}, met=figures[PIPELINE] <= 8)


# --------------------------------------------------------------------------------------------------------------- rows

ROWS = {
    "json-0": throughput("json of 150 bytes, batch 16, 0 workers", "json", 0, 30),
    "json-0-stored": decoded_throughput("the same, of which litdata stores the json and decodes it", 0),
    "json-2": throughput("json of 150 bytes, batch 16, 2 workers", "json", 2, 10),
    "captions-0": throughput("JPEG to float tensor, batch = list of 16, 0 workers", "captions", 0, 2.3),
    "captions-2": throughput("the same, 2 workers", "captions", 2, 2.2),
    "padded-0": padded_throughput("JPEG to float tensor, padded batch of 16, 0 workers", 0, 1.6),
    "padded-2": padded_throughput("the same, 2 workers", 2, 1.6),
    "state": Row(
        work="state after 2,000 samples, `shuffle_buffer_size=10000`, 2 workers",
        target="≤ 8 KiB, as with buffer 100",
        jobs=(*SAVED_WITH_100.values(), *SAVED.values()),
        judge=judge_state,
    ),
    "restore": Row(
        work="construct + restore + first batch, likewise",
        target="≤ 1.2× a fresh start, ≥ 5×",
        jobs=(*SAVED.values(), FRESH_WITH_10_000, *RESTORED.values()),
        judge=judge_restore,
    ),
    "memory": Row(
        work="extra memory of a worker for `shuffle_buffer_size=10000`, JPEG to float tensor",
        target="≤ 5 MiB",
        jobs=(*WITHOUT_BUFFER.values(), *WITH_BUFFER.values()),
        judge=judge_memory,
    ),
    "first": times_faster(
        "construct + first batch, JPEG to float tensor, 2 workers",
        2,
        tuple(Job(library=library, task="first", kind="captions", options=("--workers", "2")) for library in LIBRARIES),
        "seconds",
        milliseconds,
        alone=False,
    ),
    "overhead": Row(
        work="our pipeline's own time per sample, without user code",
        target="≤ 8 µs",
        jobs=(OVERHEAD_JOB,),
        judge=judge_overhead,
    ),
}
