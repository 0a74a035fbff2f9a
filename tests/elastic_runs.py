"""Test elastic resume of any pipeline: save at every step, restore on other ranks and workers, compare every byte.

All ranks of a run are in this process and are stepped in turn, as collective operations step real ranks; each may have
worker processes. A run is recorded as a dict of ``micro-batch of the run → its bytes``, so two runs can be compared
whatever their numbers of ranks: lost, repeated and different micro-batches are found.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from itertools import cycle
from typing import Any

import numpy as np
import torch

from loader import SavableDataset, WorkerConfig, get_savable_loader
from loader.samples.types import CrudeBatch
from loader.training.states.run_state import checksum_of

Build = Callable[[WorkerConfig], SavableDataset[Any]]
Delivered = dict[int, bytes]  # micro-batch of the run → its bytes

RANKS = (1, 2, 3, 4, 6, 8)
"""Numbers of ranks on which a run is restored, as far as they divide its lanes."""


@dataclass(frozen=True)
class Spread:
    """Ranks of a run, and worker processes of each rank."""

    ranks: int = 1
    workers: int = 0


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A pipeline under test.

    Args:
        build: Builds the dataset of a rank. Its micro-batches must have a ``__restore_key__``.
        batches: Number of micro-batches to compare, in several iterations if necessary; None compares one whole pass.
        known_ahead: Micro-batches go to the ranks in turn from the start or restore on. Otherwise only the sequence of
            each lane is guaranteed (a finite pass in which samples are dropped or regrouped).
        lanes: Number of lanes.
        seed: Seed of the run.
        skip_steps: Steps that all loaders skip.
    """

    build: Build
    batches: int | None = 36
    known_ahead: bool = True
    lanes: int = 12
    seed: int = 0
    skip_steps: Sequence[tuple[int, int]] = ()

    def config(self, rank: int, spread: Spread, *, restored: bool = False) -> WorkerConfig:
        return WorkerConfig(
            rank=rank,
            world_size=spread.ranks,
            num_workers=spread.workers,
            seed_offset=self.seed,
            lanes=None if restored else self.lanes,  # a restored run keeps the lanes that it was saved with
        )


class Run:
    """The ranks of a run, one loader each.

    Args:
        pipeline: The pipeline of all ranks.
        spread: Ranks and workers.
        states: States of all ranks of another run, to restore; None starts at the beginning.
    """

    def __init__(self, pipeline: Pipeline, spread: Spread, states: Sequence[Any] | None = None) -> None:
        self.pipeline = pipeline
        self.spread = spread
        self.delivered: Delivered = {}
        configs = [pipeline.config(rank, spread, restored=states is not None) for rank in range(spread.ranks)]
        self.loaders = [
            get_savable_loader(pipeline.build(config), skip_steps=pipeline.skip_steps) for config in configs
        ]
        if states is not None:
            for loader in self.loaders:
                loader.restore_state_global(states)
        self._iterators: list[Iterator[Any]] = [iter(loader) for loader in self.loaders]
        self._first = min(state["batch"] for state in states) if states else 0
        self._last: dict[int, int] = {}  # rank → the micro-batch that it delivered last

    def step(self) -> bool:
        """Fetch a micro-batch of each rank; return False if all ranks have ended."""
        ended = 0
        for rank, iterator in enumerate(self._iterators):
            batch = next(iterator, None)
            if batch is None and self.pipeline.batches is not None:
                self._iterators[rank] = iter(self.loaders[rank])
                batch = next(self._iterators[rank], None)
            if batch is None:
                ended += 1
                continue
            number = number_of(batch)
            assert number not in self.delivered, f"micro-batch {number} came twice"
            if self.pipeline.known_ahead:
                assert (number - self._first) % self.spread.ranks == rank, f"micro-batch {number} came on rank {rank}"
                assert number > self._last.get(rank, -1), f"micro-batch {number} came late"
            self._last[rank] = number
            self.delivered[number] = fingerprint(batch)
        return ended < len(self.loaders)

    def is_unfinished(self) -> bool:
        """Return True while more micro-batches are to be compared."""
        wanted = self.pipeline.batches
        return wanted is None or len(self.delivered) < wanted

    def states(self) -> list[Any]:
        """Return the states of all ranks, as ``save_state_global`` gathers them."""
        return [loader.save_state_rank() for loader in self.loaders]

    def close(self) -> None:
        for loader in self.loaders:
            loader.close()


@contextmanager
def running(pipeline: Pipeline, spread: Spread, states: Sequence[Any] | None = None) -> Iterator[Run]:
    """Open a run, and end its processes at the end of the context."""
    run = Run(pipeline, spread, states)
    try:
        yield run
    finally:
        run.close()


def uninterrupted(pipeline: Pipeline, spread: Spread = Spread()) -> Delivered:
    """Return the micro-batches of an uninterrupted run."""
    with running(pipeline, spread) as run:
        while run.is_unfinished() and run.step():
            pass
        return run.delivered


def check_every_save(
    pipeline: Pipeline,
    saved_by: Spread = Spread(2),
    restored_by: Sequence[Spread] = (),
    *,
    reference: Delivered | None = None,
    every: int = 1,
    targets: int = 1,
    between: Callable[[], None] = lambda: None,
) -> Delivered:
    """Save a run at each step, and assert that runs restored from these states deliver exactly the remainder.

    Args:
        pipeline: The pipeline.
        saved_by: Ranks and workers of the saved run.
        restored_by: Ranks and workers of the restored runs, used in rotation. By default all of ``RANKS`` that divide
            the lanes, without workers.
        reference: Micro-batches of an uninterrupted run; by default it is run here.
        every: Save at each ``every``-th step only.
        targets: Number of restored runs for each state.
        between: Called between saving and restoring.

    Returns:
        The micro-batches of the uninterrupted run.
    """
    expected = uninterrupted(pipeline) if reference is None else reference
    assert expected, "the pipeline delivers nothing, so nothing would be compared"
    able = tuple(Spread(ranks) for ranks in RANKS if pipeline.lanes % ranks == 0)
    turns, forms = cycle(restored_by or able), cycle((through_json, through_torch))
    with running(pipeline, saved_by) as run:
        step, more = 0, True
        while more and run.is_unfinished():
            if step % every == 0:
                states = next(forms)(run.states())
                between()
                for _ in range(targets):
                    check_rest(pipeline, next(turns), states, expected, run.delivered, at=f"step {step}")
            more = run.step()
            step += 1
        assert_same(run.delivered, expected, f"{saved_by} uninterrupted")
    return expected


def check_rest(
    pipeline: Pipeline,
    spread: Spread,
    states: Sequence[Any],
    expected: Delivered,
    before: Mapping[int, bytes],
    *,
    at: str = "",
) -> None:
    """Assert that a run restored from ``states`` delivers the micro-batches of ``expected`` that ``before`` lacks."""
    with running(pipeline, spread, states) as run:
        while before.keys() | run.delivered.keys() < expected.keys() and run.step():
            pass
        if pipeline.batches is None:
            assert not run.step(), f"{spread}, saved at {at}: there is more than an uninterrupted run delivers"
        twice = sorted(before.keys() & run.delivered.keys())
        assert not twice, f"{spread}, saved at {at}: micro-batches {twice} come twice"
        assert_same(dict(before) | run.delivered, expected, f"{spread}, saved at {at}")


def assert_same(found: Mapping[int, bytes], expected: Mapping[int, bytes], what: str) -> None:
    """Assert that two runs delivered the same micro-batches, as far as both went."""
    missing = sorted(expected.keys() - found.keys())
    assert not missing, f"{what}: micro-batches {missing} are lost"
    more = sorted(found.keys() - expected.keys())
    # An endless run is stopped after a step of all ranks, which may exceed the wanted number.
    assert all(number > max(expected) for number in more), f"{what}: micro-batches {more} should not be there"
    for number in sorted(expected):
        assert found[number] == expected[number], f"{what}: micro-batch {number} differs"


def through_json(states: Any) -> Any:
    return json.loads(json.dumps(states, allow_nan=False))


def through_torch(states: Any) -> Any:
    file = io.BytesIO()
    torch.save(states, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def restore_key_of(batch: Any) -> tuple[Any, ...]:
    key: tuple[Any, ...] = batch["__restore_key__"] if isinstance(batch, dict) else batch.__restore_key__
    return key


def number_of(batch: Any) -> int:
    """Return the number of a micro-batch within the run."""
    stage, _, number, _ = restore_key_of(batch)
    assert stage == "micro-batch"
    return int(number)


def fingerprint(value: Any) -> bytes:
    """Return bytes that are equal for equal values only, including types and shapes."""
    pieces: list[bytes] = []
    _add_pieces(value, pieces)
    return b"".join(pieces)


_PLAIN = frozenset({int, str, float, bool, bytes, type(None)})


def _add_pieces(value: Any, pieces: list[bytes]) -> None:
    kind = type(value)
    if kind in _PLAIN:  # first, since there are a hundred of them in a batch
        pieces.append(f"{kind.__qualname__}({value!r})".encode())
        return
    name = "dict" if kind is CrudeBatch else kind.__qualname__  # 0.3.0 recorded batches of crude samples as dicts
    pieces.append(f"{name}(".encode())
    if isinstance(value, torch.Tensor):
        _add_pieces(value.numpy(), pieces)
    elif isinstance(value, np.ndarray):
        pieces.append(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    elif is_dataclass(value) and not isinstance(value, type | tuple):
        for field in fields(value):
            pieces.append(field.name.encode())
            _add_pieces(_recorded_form(field.name, getattr(value, field.name)), pieces)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _add_pieces(key, pieces)
            _add_pieces(_recorded_form(key, inner), pieces)
    elif isinstance(value, list | tuple):
        for inner in value:
            _add_pieces(inner, pieces)
    else:
        pieces.append(repr(value).encode())
    pieces.append(b")")


def _recorded_form(name: str, value: Any) -> Any:
    """Return the value of a field as recorded fingerprints have it: all sources of a batch in one tuple."""
    if name == "__sources__" and isinstance(value, list):
        return tuple(source for each in value for source in each or ())
    return value


def sealed(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with the checksum of its present entries, as if a loader had saved it so."""
    return {**state, "checksum": checksum_of(state)}
