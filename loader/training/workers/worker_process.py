"""A worker process of a rank, the two pipes between them, and the signals that the worker leaves to its rank.

The worker sends packed bundles of micro-batches through one pipe. Through the other, the rank requests them: each
request lets the worker make one more. Every worker has pipes of its own, so one that is killed, in the middle of a
write or elsewhere, disturbs no other. The rank waits for the pipe and for the end of the process together, so it learns
of a death at once.

Schedulers and terminals send a signal to all processes of a step or group. A forked worker has the handlers of the
training program, and a spawned one the default action, which for most signals ends it. So a worker ignores each signal
that the training program handles, from its first instruction on: the signals are blocked while it starts.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ...transport.message import AttachedSegments, PackedBundle, SegmentPool, new_flags, unpack_bundle

_POLL_MS = 250  # between two checks for a loader that is closed, or a rank that was killed
_JOIN_S = 5.0  # in which workers that are closed may finish what they do
# Each bundle follows its size.
_SIZE = struct.Struct("<Q")
# Pipes hold 64 KiB by default, so this reads all that is there.
_READ_BYTES = 1 << 20

StopFlag = Any
"""A shared byte: workers stop where it is not 0."""


class WorkerEnded(Exception):  # noqa: N818 - it ends a wait; the loader decides whether it is an error
    """A worker process ended before its last bundle."""


_processes: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()  # of this rank, whose pipes a fork inherits


class WorkerProcess:
    """A running worker, as its rank sees it.

    Args:
        work: Runs in the process.
        stop: Workers and their rank stop where it is not 0, in the rank also a wait of another thread.
        ahead: The number of bundles that the worker makes before the rank needs them.

    Attributes:
        segments: The shared memory of its bundles.
    """

    def __init__(self, number: int, work: Callable[[Pipes], None], *, context: Any, stop: StopFlag, ahead: int) -> None:
        flags = new_flags()
        self.segments = AttachedSegments(flags)
        self._stop = stop
        # One pipe has bundles, the other one requests for them. No side waits in a read or write of bundles.
        self._bundles, sender = context.Pipe(duplex=False)
        receiver, self._requests = context.Pipe(duplex=False)
        for end in (self._bundles, sender):
            os.set_blocking(end.fileno(), False)
        self.process: BaseProcess = context.Process(
            target=_run, args=(work, sender, receiver, stop, flags), name=f"loader worker {number}", daemon=True
        )
        # Start the process, and close the worker's ends here: a read then notices its end.
        _processes.add(self)
        try:
            self.process.start()
        finally:
            sender.close()
            receiver.close()
        # Wait for bundles and for the end of the process at once.
        self._poll = select.poll()
        self._poll.register(self._bundles.fileno(), select.POLLIN)
        self._poll.register(self.process.sentinel, select.POLLIN)
        self._request(ahead)

    def _request(self, bundles: int) -> None:
        with suppress(OSError):  # the worker has ended, which the next wait finds
            os.write(self._requests.fileno(), bytes(bundles))

    def receive(self) -> tuple[Any, int]:
        """Return the next bundle and when it arrived, and request another one; None if the loader is closed meanwhile.

        Raises:
            WorkerEnded: The process has ended without another bundle.
        """
        size = self._read(_SIZE.size)
        data = size and self._read(_SIZE.unpack(size)[0])
        arrived_ns = time.perf_counter_ns()
        if not data:
            return None, arrived_ns
        try:
            bundle = unpack_bundle(ForkingPickler.loads(data), self.segments)
        except OSError as error:  # the contents are in memory of a process that has ended since
            if self.process.is_alive():
                raise
            raise WorkerEnded from error
        self._request(1)
        return bundle, arrived_ns

    def _read(self, size: int) -> bytearray | None:
        received = bytearray()
        while len(received) < size:
            ready = self._poll.poll(_POLL_MS)
            if self._stop.value:
                return None
            if ready:
                # A worker that has ended may have sent its last bytes before; a process that it started keeps the pipe.
                try:
                    more = os.read(self._bundles.fileno(), min(size - len(received), _READ_BYTES))
                except BlockingIOError:
                    more = b""
                if not more:
                    self.process.join(_JOIN_S)  # its pipes close a moment before its end
                    raise WorkerEnded
                received += more
        return received

    def hang_up(self) -> None:
        """Close the rank's ends of the pipes, for which the worker waits no more, and forget its shared memory."""
        self._bundles.close()
        self._requests.close()
        self.segments.forget()

    def kill(self) -> None:
        """End the process at once, whatever it does, and wait for its end."""
        self.process.kill()
        self.process.join()
        self.hang_up()


def end_workers(processes: list[WorkerProcess], stop: StopFlag, rank_pid: int) -> None:
    """End the workers of a loader: each after the micro-batch that it makes, or after 5 s.

    Args:
        rank_pid: The process that started them; in a fork of it, this function does nothing.
    """
    if os.getpid() != rank_pid:
        return
    stop.value = 1
    for worker in processes:
        worker.hang_up()
    deadline = time.monotonic() + _JOIN_S
    for worker in processes:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        if worker.process.is_alive():
            worker.kill()


class Pipes:
    """The pipes of a worker, in its process.

    Args:
        receiver: Has a byte for each bundle that is requested.
        flags: The owners of the segments of its bundles.

    Attributes:
        pool: These segments; None without segments.
    """

    def __init__(self, sender: Connection, receiver: Connection, stop: StopFlag, flags: Any) -> None:
        self._sender = sender
        self._receiver = receiver
        self._stop = stop
        self._parent = os.getppid()
        self.pool = None if flags is None else SegmentPool(flags)

    @property
    def has_stopped(self) -> bool:
        """True if the loader is closed, or the rank has ended."""
        if self._stop.value or os.getppid() != self._parent:
            return True
        rank = multiprocessing.parent_process()
        # The parent of a process of a fork server is the server, which its own workers keep alive.
        return rank is not None and rank.pid != self._parent and not rank.is_alive()

    def wait_for_request(self) -> bool:
        """Wait until the rank requests a bundle; return False if it will request none."""
        file = self._receiver.fileno()
        poll = select.poll()
        poll.register(file, select.POLLIN)
        while not self.has_stopped:
            if poll.poll(_POLL_MS):
                return bool(os.read(file, 1))
        return False

    def send(self, packed: PackedBundle) -> None:
        """Send a bundle; give up if the loader is closed or the rank has ended."""
        content = bytes(ForkingPickler.dumps(packed))
        rest = memoryview(_SIZE.pack(len(content)) + content)
        file = self._sender.fileno()
        poll = select.poll()
        poll.register(file, select.POLLOUT)
        while rest:
            try:
                rest = rest[os.write(file, rest) :]
            except BlockingIOError:
                while not poll.poll(_POLL_MS):
                    if self.has_stopped:
                        return
            except BrokenPipeError:
                return


def _run(work: Callable[[Pipes], None], *pipes: Any) -> None:
    for inherited in list(_processes):
        inherited.hang_up()  # in a fork; an open copy would hide the end of the rank from the other workers
    with suppress(KeyboardInterrupt):  # the rank gets it, too
        work(Pipes(*pipes))


# ------------------------------------------------------------------------------------------------ signals of the rank

_OF_A_PROCESS = frozenset(
    # Faults, and the timers of a process: a hook may set one, and have the handler of the training program.
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV}
    | {signal.SIGALRM, signal.SIGPROF, signal.SIGVTALRM}
)
_DEFAULT = (signal.SIGTERM, signal.SIGCHLD)  # SIGTERM ends a worker; without SIGCHLD, it could not wait for processes
_NOTICES = frozenset({signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2})
"""Blocked without a handler, too: a fork server keeps its mask, and must outlive what later handlers are called for."""


@dataclass(frozen=True, kw_only=True)
class RankSignals:
    """The signals of a rank, for its workers; it pickles.

    Attributes:
        handled: The signals with a handler in Python, except Ctrl-C with Python's own handler, which workers need.
    """

    handled: frozenset[int]
    mask: frozenset[int]

    def leave_to_rank(self) -> None:
        """Ignore, in a worker's process, the signals that the rank handles, and receive all others."""
        if threading.current_thread() is threading.main_thread():
            for signal_number in self.handled:
                signal.signal(signal_number, signal.SIG_DFL if signal_number in _DEFAULT else signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


@contextmanager
def blocked_signals(*others: int) -> Iterator[RankSignals]:
    """Block the signals of this rank in its thread; a process that starts in the block inherits that.

    Args:
        others: Signals to block also without a handler.
    """
    handled = frozenset(
        int(signal_number)
        for signal_number in signal.valid_signals() - _OF_A_PROCESS
        if callable(handler := signal.getsignal(signal_number)) and handler is not signal.default_int_handler
    )
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, handled | _NOTICES | {*others})
    try:
        yield RankSignals(handled=handled, mask=frozenset(map(int, mask)))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
