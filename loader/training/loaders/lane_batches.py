"""The micro-batches of a rank's lanes, and where they stand: what the stages that count on the rank take from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...order import LaneHosting, default_lanes
from ...pipeline.contract.stage import SKIPPED, SavableDataset, State
from ..states.run_state import ENDLESS, FINITE, LANE_BY_LANE
from ..workers.bundles import StreamOptions
from ..workers.lane_host import LaneHost, LanesInTurn, LanesOneByOne
from .batch_stream import BatchStream

__all__ = ["LaneBatches"]

_LANES_ONE_AFTER_ANOTHER = 48


class LaneBatches:
    """One live run through the micro-batches of a rank's lanes at a time.

    Args:
        chain: The stages of the lanes.
        options: How worker processes are used.

    Attributes:
        lanes: L.
        batch: The micro-batch of the run that comes next.
        lane_states: The states of lanes that have begun, by number.
        passes: How often the pass was begun anew.
        ended: The pass is over; the next iteration begins it anew.
    """

    def __init__(self, chain: SavableDataset[Any], options: StreamOptions) -> None:
        self.chain = chain
        self._options = options
        self._in_turn = not chain.starts_over or chain.items is not None
        self._stream: BatchStream | None = None
        self.lanes = self._chosen_lanes()
        self.batch = 0
        self.lane_states: dict[int, State] = {}
        self.passes = 0
        self.ended = False

    def _chosen_lanes(self) -> int:
        config = self.chain.worker_config
        if config.lanes is not None:
            return config.lanes
        if not self._in_turn:
            return _LANES_ONE_AFTER_ANOTHER
        return default_lanes(config.world_size, config.num_workers, has_buffers=self.chain.waits)

    @property
    def kind(self) -> str:
        """How lanes are visited, as a state says it."""
        if not self._in_turn:
            return LANE_BY_LANE
        return ENDLESS if self.chain.repeats else FINITE

    def batches(self) -> Iterator[Any]:
        """Yield micro-batches, from where the last iteration ended to the end of the pass."""
        if self.ended:
            self.start_over()
        if self._stream is None:
            self._stream = BatchStream(self._host(), self._options)
        config = self.chain.worker_config
        next_own = config.world_size - config.rank
        try:
            for number, lane, state, batch in self._stream:
                self.lane_states[lane] = state
                self.batch = number + next_own
                if batch is not SKIPPED:
                    yield batch
        except GeneratorExit:
            raise  # the loop was left; the next one goes on with this stream
        except BaseException:
            # A stream that failed has no more to give: the next iteration starts where this one stopped.
            self.close()
            raise
        self.close()
        # Where the pass ended is kept: other ranks may be about to deliver their last micro-batch, and save then.
        self.ended = True

    def _host(self) -> LaneHost:
        config = self.chain.worker_config
        if self._in_turn:
            return LanesInTurn(
                dataset=self.chain,
                hosting=self._hosting(self.lanes),
                states=self.lane_states,
                cache_pool=self._options.cache_pool,
            )
        return LanesOneByOne(
            dataset=self.chain,
            lanes=self.lanes,
            rank=config.rank,
            ranks=config.world_size,
            workers=config.num_workers,
            states=self.lane_states,
            cache_pool=self._options.cache_pool,
        )

    def _hosting(self, lanes: int) -> LaneHosting:
        config = self.chain.worker_config
        return LaneHosting(
            lanes=lanes,
            ranks=config.world_size,
            rank=config.rank,
            workers=config.num_workers,
            first_batch=self.batch,
        )

    def start_over(self) -> None:
        """Let the next iteration begin with the first micro-batch."""
        self.restore(lanes=self.lanes, batch=0, lane_states={}, passes=self.passes + 1, ended=False)

    def check_lanes(self, lanes: int) -> None:
        """Refuse a number of lanes that the ranks cannot share.

        Raises:
            StateError: The number of ranks does not divide it; the message says which do.
        """
        if self._in_turn:
            self._hosting(lanes)

    def restore(self, *, lanes: int, batch: int, lane_states: Mapping[int, State], passes: int, ended: bool) -> None:
        """Go on from such a place; the attributes say what they are."""
        self.close()
        self.lanes = lanes
        self.batch = batch
        self.lane_states = dict(lane_states)
        self.passes = passes
        self.ended = ended

    def close(self) -> None:
        """End the worker processes; the next iteration starts new ones where these stopped."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
