"""The micro-batches of a rank's lanes: one run through them, and the position at which the next run starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from ...errors import WorkerError
from ...order import PASS_LANES, LaneHosting, default_lanes
from ...pipeline.contract.stage import SKIPPED, SavableDataset, State
from ..states.run_state import ENDLESS, FINITE, LANE_BY_LANE, RunState
from ..stats.meter import RankMeter
from ..workers.batch_trace import BatchTrace
from ..workers.bundles import WorkerBundles
from ..workers.dead_worker import worker_died_error
from ..workers.replacements import Replacements, find_recorded, quarantine_samples
from ..workers.running_lane import NO_LANE, LaneHost, LanesInTurn, LanesOneByOne, Message
from ..workers.stream_options import StreamOptions
from ..workers.watchdog import Watchdog
from ..workers.worker_board import WorkerBoard
from ..workers.worker_errors import DroppedSamples, PackedError, check_dropped, raise_packed
from ..workers.worker_messages import OwnMessages, WorkerMessages
from ..workers.worker_process import WorkerEnded
from ..workers.worker_threads import WorkerThreads


class ShutDown(Exception):  # noqa: N818 - it ends an iteration, as StopIteration does
    """Ends an iteration whose workers were ended, through all stages of the rank: the pass is not over."""


class Position(NamedTuple):
    """The position of a rank between two micro-batches; with the fields of :class:`.RunState`."""

    batch: int
    lane_states: Mapping[int, State]
    passes: int
    ended: bool
    steps: Sequence[int] = ()


class LaneBatches:
    """The input of the stages that count on the rank: one live run through the lanes' micro-batches at a time.

    Args:
        is_repeated: A stage of the rank begins the next pass where one ends.

    Attributes:
        batch: The number, within the run, of the micro-batch that comes next.
        ended: The pass is over; the next iteration restarts it.
        left_out: The micro-batches that are skipped: made and not delivered.
        trace: Returns the log of a start of the workers; None for no log.
    """

    def __init__(
        self,
        chain: SavableDataset[Any],
        options: StreamOptions,
        *,
        is_repeated: bool = False,
        meter: RankMeter | None = None,
    ) -> None:
        self.chain = chain
        self._meter = meter
        self._is_repeated = is_repeated
        self._options = options
        config = chain.worker_config
        self._workers = 0 if options.worker_type == "main" else config.num_workers
        # In turn, all lanes are at nearly the same micro-batch; a pass over items of unknown number visits one by one.
        self._in_turn = not chain.starts_over or chain.items is not None
        self._stream: BatchStream | None = None
        self.starts = 0
        self.lanes = config.lanes or PASS_LANES
        if self._in_turn and config.lanes is None:
            self.lanes = default_lanes(config.world_size, config.num_workers, has_buffers=chain.waits)
        # The position, which states record.
        self.batch = 0
        self.lane_states: dict[int, State] = {}
        self.passes = 0
        self.ended = False
        self._has_batches = False  # of this pass
        self.left_out: tuple[range, ...] = ()
        self.trace: Callable[[], BatchTrace] | None = None
        self.replacements = Replacements(options, rank=config.rank)

    @property
    def kind(self) -> str:
        """The order in which lanes are visited, as states record it."""
        if not self._in_turn:
            return LANE_BY_LANE
        return ENDLESS if self.chain.repeats else FINITE

    def batches(self) -> Iterator[Any]:
        """Yield micro-batches, from the end of the last iteration to the end of the pass.

        Raises:
            ShutDown: The workers were ended by :meth:`close` meanwhile.
            RepeatedSampleError: All samples of the pass were skipped, or failed.
        """
        stream = self.start()
        config = self.chain.worker_config
        next_own = config.world_size - config.rank
        dropped: list[DroppedSamples] = []
        try:
            for batch_number, lane, state, batch, others in stream:
                if lane == NO_LANE:
                    dropped.append(batch)
                    continue
                self.lane_states[lane] = state
                if others is not None:
                    self.lane_states.update(others)
                self.batch = batch_number + next_own
                if batch is not SKIPPED:
                    self._has_batches = True
                    yield batch
        except GeneratorExit:
            raise  # the loop was left; the next one continues with this stream
        except BaseException:
            # A stream that failed yields nothing more: the next iteration starts where this one stopped.
            self.close()
            raise
        if self._stream is not stream:
            raise ShutDown
        self.close()
        # The end of the pass stays recorded: other ranks may still deliver their last micro-batch, and save then.
        self.ended = True
        if not self._has_batches and config.skip_tolerance is not None:
            check_dropped(dropped, is_repeated=self.chain.repeats or self._is_repeated)

    @property
    def is_running(self) -> bool:
        """True from the start of the workers to the end of the pass, or to :meth:`close`."""
        return self._stream is not None

    def start(self) -> BatchStream:
        if self.ended:
            self.start_over()
        if self._stream is None:
            if self.replacements.quarantined:
                quarantine_samples(self.chain, self.replacements.quarantined)
            self._stream = BatchStream(self._host(), self._options, self.replacements, self._meter)
            self.starts += 1
        return self._stream

    def _host(self) -> LaneHost:
        config = self.chain.worker_config
        options: dict[str, Any] = {
            "dataset": self.chain,
            "lanes": self.lanes,
            "rank": config.rank,
            "ranks": config.world_size,
            "workers": self._workers,
            "states": self.lane_states,
            "cache_pool": self._options.cache_pool,
            "trace": self.trace and self.trace(),
            "collects_every": self._options.gc_collect_every_n_steps,
        }
        if not self._in_turn:
            return LanesOneByOne(**options)
        return LanesInTurn(**options, left_out=self.left_out, first_batch=self.batch)

    def first_batch(self) -> Any:
        """Build the first micro-batch of the pass once more, which is the same on all ranks; the position stays.

        A worker of its own makes it, so that a sample at which workers die or hang does not end the rank.

        Returns:
            The micro-batch; :data:`.SKIPPED` if all samples of the pass are skipped.
        """
        quarantine_samples(self.chain, self.replacements.quarantined)
        host = LanesOneByOne(dataset=self.chain, lanes=self.lanes, workers=min(1, self._workers))
        with closing(BatchStream(host, self._options, self.replacements)) as stream:
            made = (message.batch for message in stream if message.lane != NO_LANE)
            return next((batch for batch in made if batch is not SKIPPED), SKIPPED)

    def start_over(self) -> None:
        self.restore(Position(batch=0, lane_states={}, passes=self.passes + 1, ended=False))

    def check_lanes(self, lanes: int) -> None:
        if self._in_turn:
            LaneHosting(lanes=lanes, ranks=self.chain.worker_config.world_size, rank=0, workers=0)  # raises

    def restore(self, position: Position | RunState) -> None:
        self.close()
        self.batch, self.passes, self.ended = position.batch, position.passes, position.ended
        self.lane_states = dict(position.lane_states)
        self._has_batches = bool(self.lane_states)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class BatchStream:
    """One run through a rank's micro-batches, made in its worker processes or in its own process.

    Attributes:
        source: The messages that have them.
    """

    def __init__(
        self,
        host: LaneHost,
        options: StreamOptions,
        replacements: Replacements,
        meter: RankMeter | None = None,
    ) -> None:
        self._host = host
        self._replacements = replacements
        self._board = WorkerBoard(max(1, host.workers))
        self._watchdog = Watchdog(
            options.watchdog_timeout_seconds,
            options.watchdog_initial_timeout_seconds,
            fail=options.fail_on_timeout,
            board=self._board,
            describe=self._describe_last_sample,
            replace_after_s=options.worker_timeout_s,
        )
        kind: type[WorkerMessages] = WorkerThreads if options.worker_type == "thread" else WorkerBundles
        self.source = (kind if host.workers else OwnMessages)(host, self._board, options, meter)

    def __iter__(self) -> Iterator[Message]:
        """Yield the rank's micro-batches with the states of their lanes; :data:`.SKIPPED` is one without samples.

        Raises:
            Exception: The error that stopped the run in a worker.
        """
        source = self.source
        while (worker := source.worker_in_turn()) is not None:
            while not source.is_ready(worker):
                try:
                    with self._watchdog.waiting(worker):
                        source.receive(worker)
                except WorkerError:  # the watchdog gave up one worker; the others must end, too
                    self.close()
                    raise
                except WorkerEnded:
                    self._replace(worker)
            message = source.take(worker)
            if isinstance(message, PackedError):
                self.close()
                raise_packed(message)
            if message is not None:
                yield message

    def _replace(self, worker: int) -> None:
        source: Any = self.source  # of processes: nothing else ends alone
        process = source.process(worker)
        hung = self._watchdog.cause_of(worker)
        died = hung or worker_died_error(worker, process, self._board, self._describe_last_sample)
        if process.exitcode == 0:  # by an interrupt, which the rank gets as well
            self.close()
            raise died from None
        exit_code = None if hung else process.exitcode
        try:
            self._replacements.handle(
                worker, died, exit_code=exit_code, host=self._host, board=self._board, replace=source.replace
            )
        except WorkerError as error:
            self.close()
            raise error from None

    def _describe_last_sample(self, worker: int) -> str:
        recorded = self._board.read(worker)
        if recorded is None:
            return "none"
        sample = find_recorded(self._host, recorded)
        return str(recorded) if sample is None else f"{sample}, {recorded}"

    def close(self) -> None:
        self._watchdog.close()
        self.source.close()
