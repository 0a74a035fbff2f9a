"""Errors and reports about worker processes.

An exception of a worker reaches the rank as a :class:`PackedError`: its type, fields, notes and chain of causes, with
the worker's traceback as a note. torch's DataLoader would rebuild it from type and text, which drops fields and causes.

A worker that died or hangs cannot send anything. Its rank reports the number of the worker, its last sample and its
stack from the :class:`.WorkerBoard`.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ...errors import ConfigError, RepeatedSampleError, WorkerError, escape_controls
from ...escaped_log import get_logger
from ...pipeline.contract.lane import Lane
from ...pipeline.contract.stage import IteratedDataset, SavableDataset
from ...pipeline.failures.policy import FailurePolicy
from ...pipeline.reading.read import ReadDataset
from ...pipeline.stages.blend import BlendDataset
from ...pipeline.stages.concat import ConcatDataset
from ...pipeline.stages.repeat import RepeatDataset
from .worker_board import WorkerBoard, request_stack

_PACKAGE = __name__.partition(".")[0] + "."


def is_of_this_library(error: BaseException) -> bool:
    """Return True if a line of this library raised an error, and not one of a hook."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(_PACKAGE)


# ------------------------------------------------------------------------------- errors that a worker sends


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedError:
    """An exception and its chain of causes, as a picklable value.

    Attributes:
        links: The pickled exceptions, each followed by its cause; None for one that does not pickle.
        texts: Type and message of each, for those that do not pickle.
        worker: The number of the worker process, None without worker processes.
    """

    links: tuple[bytes | None, ...]
    texts: tuple[str, ...]
    trace: str
    worker: int | None = None


def pack_error(error: BaseException, *, worker: int | None = None) -> PackedError:
    """Pack an exception for another process; never raises."""
    chain = _chain_of_causes(error)
    return PackedError(
        links=tuple(_pickle_error(link) for link in chain),
        texts=tuple(_text(link) for link in chain),
        # The error of a file names it, and needs no functions.
        trace=""
        if isinstance(error, ConfigError) and error.at
        else escape_controls("".join(traceback.format_exception(error)), keep="\n\t").rstrip(),
        worker=worker,
    )


def raise_packed(packed: PackedError) -> NoReturn:
    """Raise an exception that was packed in another process, with a note of its traceback there."""
    error = unpack_error(packed)
    indented = "\n".join(f"  {line}" for line in packed.trace.splitlines())
    where = "in the worker process" if packed.worker is None else f"in worker process {packed.worker}"
    error.add_note(f"{where}:\n{indented}" if indented else where)
    raise error


def unpack_error(packed: PackedError) -> BaseException:
    """Return an exception that was packed in another process, with its causes but without tracebacks."""
    chain = [_unpickle_error(link, text) for link, text in zip(packed.links, packed.texts, strict=True)]
    if isinstance(chain[0], StopIteration | StopAsyncIteration | GeneratorExit):
        chain[0] = _substitute(packed.texts[0])
    for link, cause in zip(chain, [*chain[1:], None], strict=True):
        link.__cause__ = cause
    return chain[0]


def _chain_of_causes(error: BaseException) -> list[BaseException]:
    """Return an exception, its cause, the cause's cause, and so on: all that a traceback prints."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and all(link is not earlier for earlier in chain):
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def _text(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception_only(error)).strip()
    except Exception:
        return type(error).__qualname__


def _pickle_error(error: BaseException) -> bytes | None:
    """Pickle an exception, if unpickling restores its type and text; otherwise return None."""
    for picklable in (error, _OwnReduce(error), _WithoutInit(error)):
        try:
            data = pickle.dumps(picklable)
            copied = pickle.loads(data)  # noqa: S301 - our own bytes
            if type(copied) is type(error) and str(copied) == str(error):
                return data
        except Exception:  # noqa: S112 - users' classes may raise any error here; the next form is tried
            continue
    return None


class _OwnReduce:
    """Pickles an exception by its own ``__reduce__``, whatever other libraries have registered for its class.

    tblib, which Dask imports, registers functions for all exceptions; they lose the text of a UnicodeDecodeError.
    """

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self._error.__reduce__()


class _WithoutInit:
    """Pickles an exception whose ``__init__`` does not take its ``args``, as with most that add fields."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return _build_without_init, (type(self._error), self._error.args, self._error.__dict__)


def _build_without_init(kind: type[BaseException], args: tuple[Any, ...], fields: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


def _unpickle_error(link: bytes | None, text: str) -> BaseException:
    try:
        cause: Any = None if link is None else pickle.loads(link)  # noqa: S301 - written by our own worker
    except Exception:
        cause = None
    return cause if isinstance(cause, BaseException) else _substitute(text)


def _substitute(text: str) -> WorkerError:
    return WorkerError(f"a worker process raised {text}")


# ------------------------------------------------------------------------------- workers that died or hang


def describe_stack(board: WorkerBoard, worker: int, *, thread: int = 0, wait_s: float | None = None) -> str:
    """Return the stack of a worker, or the reason why there is none.

    Args:
        thread: The thread of this process whose stack to return when there are no workers.
        wait_s: The longest wait for the stack; None: 2 s.
    """
    cells = board.cells[worker]
    if cells.pid == os.getpid():
        frame = sys._current_frames().get(cells.thread or thread)  # noqa: SLF001 - documented, and the only way
        text = "".join(traceback.format_stack(frame)).rstrip() if frame is not None else None
    else:
        text = request_stack(board, worker, wait_s=wait_s)
    return text or "it gives no stack: it has not started, has ended, or waits for a disk or the network"


# Longer numbers in a path are damage, and would be slow to parse.
_MAX_DIGITS = 15


def input_at(dataset: SavableDataset[Any], lane: Lane, path: str) -> tuple[SavableDataset[Any], Lane] | None:
    """Return the stage below another one that a path leads to, and the lane for which it is opened; None for none.

    Args:
        path: The path of the wanted stage's lane, which may be further below.
    """
    index = 0
    if isinstance(dataset, BlendDataset | ConcatDataset | RepeatDataset | IteratedDataset):
        # These open each source, or each pass, for a child lane; the path contains its number.
        digits, slash, _ = path.removeprefix(lane.path).partition("/")
        if not slash or not digits.isdecimal() or len(digits) > _MAX_DIGITS:
            return None
        lane = lane.child(int(digits))
        index = 0 if isinstance(dataset, RepeatDataset) else int(digits)
        if isinstance(dataset, BlendDataset):
            if index not in dataset.origins:
                return None
            index = dataset.origins.index(index)
        if isinstance(dataset, IteratedDataset):
            index %= len(dataset.inputs)  # a later pass has another lane
    return (dataset.inputs[index], lane) if index < len(dataset.inputs) else None


def reader_at(dataset: SavableDataset[Any], lane: Lane, path: str) -> tuple[ReadDataset, Lane] | None:
    """Return the reader that a path leads to, and the lane for which it is opened; None if it leads to no reader."""
    stage: tuple[SavableDataset[Any], Lane] | None = dataset, lane
    while stage is not None and stage[0].inputs:
        stage = input_at(*stage, path)
    if stage is None or not isinstance(stage[0], ReadDataset) or stage[1].path != path:
        return None
    return stage[0], stage[1]


_log = get_logger(__name__)


_MIN_DROPPED = 10
"""Samples of a rank's pass of which some must make a micro-batch; of fewer, all may be bad by chance."""


@dataclass(frozen=True, slots=True)
class DroppedSamples:
    """The samples of a pass from which a worker made no micro-batch.

    Attributes:
        remainder: Why ``drop_last`` dropped samples that hooks kept; empty if it dropped none.
        last_failure: The error of the last one that failed; None if none has.
    """

    by_reason: Counter[str]
    remainder: str
    last_failure: PackedError | None


def dropped_samples(lanes: Iterable[FailurePolicy], *, worker: int) -> DroppedSamples | None:
    """Return the dropped samples of a worker's lanes; None if the lanes had no samples."""
    dropped: Counter[str] = Counter()
    remainder, last = "", None
    for failures in lanes:
        dropped.update(failures.dropped)
        remainder = failures.remainder or remainder
        last = failures.last or last
    if not (dropped or remainder):
        return None
    packed = None
    if last is not None:
        failure, cause = last
        error = failure.stop(f"{failure.hook} failed", cause, hint="", cause=failure.text_of(cause))
        error.__cause__ = cause
        packed = pack_error(error, worker=worker)
    return DroppedSamples(dropped, remainder, packed)


def check_dropped(reports: Sequence[DroppedSamples], *, is_repeated: bool) -> None:
    """Raise an error for a pass without micro-batches, all of whose samples were dropped.

    Args:
        is_repeated: The pass repeats without end, and would never have a micro-batch.

    Raises:
        RepeatedSampleError: All samples were skipped, or failed; or the pass is repeated, and its samples are too few
            for a micro-batch.
    """
    # Samples that are too few for a micro-batch are no failure of a finite pass.
    dropped = sum((report.by_reason for report in reports), Counter[str]())
    remainder = next((report.remainder for report in reports if report.remainder), "")
    if remainder:
        if is_repeated:
            raise RepeatedSampleError(
                f"this run without end has no micro-batch: {remainder}",
                hint="pass a smaller batch_size, or drop_last=False (batch_drop_last=False)",
            )
        _log.warning("this pass has no micro-batch: %s", remainder)
        return
    # A few dropped samples may be all that a small rank has.
    if dropped.total() < _MIN_DROPPED:
        return
    # Name the counts by reason, and the last failure.
    reasons = ", ".join(f"{reason}: {samples}" for reason, samples in dropped.most_common())
    failures = [unpack_error(report.last_failure) for report in reports if report.last_failure is not None]
    last: Any = failures[-1] if failures else None
    raise RepeatedSampleError(
        f"all samples of this pass were skipped or failed ({reasons})" + (f"; {last.message}" if last else ""),
        key=last.key if last else None,
        source=last.source if last else None,
        hint="check these hooks, and read the warnings in the log; to allow a pass without micro-batches, pass "
        "WorkerConfig(skip_tolerance=None)",
        cause=last.cause if last else None,
    ) from (last.__cause__ if last else None)
