"""States converted to another number of ranks, each restored by its own rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from loader import StateError, WorkerConfig, get_savable_loader
from loader.training.states.run_state import RunState, merge_states, ranks_of_run, redistribute_states
from tests.e2e.drawing_encoders import PackingTwice, Yielding
from tests.e2e.drawing_pipelines import Data, train, val, write_data
from tests.elastic_runs import (
    Delivered,
    Pipeline,
    Run,
    Spread,
    check_rest,
    fingerprint,
    number_of,
    running,
    through_json,
    uninterrupted,
)

PIPELINES: dict[str, dict[str, Any]] = {
    "endless": {"build": train},
    "packing": {"build": partial(train, encoder=PackingTwice, packing_buffer_size=9)},
    "virtual epochs": {"build": partial(train, virtual_epoch_length=4)},
    "one pass": {"build": partial(train, repeat=False), "batches": None},
    "validation": {"build": val, "batches": None},
    # Single samples: no stage joins the ends of lanes, so each lane's sequence is the same on any ranks.
    "validation, lane by lane": {
        "build": partial(val, encoder=Yielding, batch_size=None),
        "batches": None,
        "known_ahead": False,
    },
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("split"))


def pipeline_of(name: str, data: Data) -> Pipeline:
    options = PIPELINES[name]
    return Pipeline(**{**options, "build": partial(options["build"], data)})


def redistributed(states: Sequence[Any], ranks: int) -> list[Any]:
    parts = redistribute_states([RunState.from_plain(state) for state in states], ranks)
    plain: list[Any] = through_json([part.to_plain() for part in parts])
    return plain


class OwnStates(Run):
    """A run in which each rank has only its own state."""

    def __init__(self, pipeline: Pipeline, states: Sequence[Any]) -> None:
        super().__init__(pipeline, Spread(len(states)))
        self.loaders = [
            get_savable_loader(pipeline.build(pipeline.config(rank, self.spread, restored=True)))
            for rank in range(len(states))
        ]
        for loader, state in zip(self.loaders, states, strict=True):
            loader.restore_state_rank(state)
        self._iterators = [iter(loader) for loader in self.loaders]
        self._first = min(state["batch"] for state in states)


def steps_of(run: Run, steps: int) -> Delivered:
    for _ in range(steps):
        run.step()
    return run.delivered


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.sampled(3)
def test_ranks_that_restore_their_own_part_deliver_the_rest(name: str, data: Data) -> None:
    pipeline = pipeline_of(name, data)
    expected = uninterrupted(pipeline)
    with running(pipeline, Spread(2)) as run:
        before = dict(steps_of(run, 3))
        states = run.states()
    for ranks in (1, 3, 4, 6):
        run = OwnStates(pipeline, redistributed(states, ranks))
        while before.keys() | run.delivered.keys() < expected.keys() and run.step():
            pass
        assert not before.keys() & run.delivered.keys()
        delivered = before | run.delivered
        assert {number: delivered[number] for number in expected} == expected


@pytest.mark.parametrize("name", ["endless", "packing", "one pass", "validation, lane by lane"])
def test_a_run_may_change_its_ranks_repeatedly(name: str, data: Data) -> None:
    pipeline = pipeline_of(name, data)
    expected = uninterrupted(pipeline)
    with running(pipeline, Spread(2)) as run:
        delivered = dict(steps_of(run, 2))
        states = run.states()
    with running(pipeline, Spread(4), states) as run:
        delivered |= steps_of(run, 2)
        states = run.states()
    assert not {*states[0]["lane"]} & {*states[1]["lane"]}, "a lane is kept by the rank that hosts it, and by no other"
    states = redistributed(redistributed(states, 6), 3)
    check_rest(pipeline, Spread(3), states, expected, delivered)


def test_even_ranks_stay_even_after_a_redistribution(data: Data) -> None:
    pipeline = Pipeline(build=partial(val, data, even_ranks=True), batches=None)  # a pass of 21 micro-batches
    with running(pipeline, Spread(2)) as run:
        steps_of(run, 3)
        states = run.states()
    for ranks in (1, 3, 4):
        run = OwnStates(pipeline, redistributed(redistributed(states, 6), ranks))
        steps = 0
        while run.step():
            steps += 1
        assert steps == 15 // ranks


def test_the_same_number_of_ranks_gets_the_same_states(data: Data) -> None:
    with running(pipeline_of("one pass", data), Spread(3)) as run:
        steps_of(run, 2)
        states = run.states()
    assert redistributed(states[::-1], 3) == through_json(states)


def test_a_part_fits_its_own_rank_only(data: Data) -> None:
    with running(pipeline_of("endless", data), Spread(2)) as run:
        steps_of(run, 2)
        parts = redistributed(run.states(), 3)
    loader = get_savable_loader(train(data, WorkerConfig(rank=0, world_size=3, num_workers=0)))
    with pytest.raises(StateError, match="rank 2 of 3; this is rank 0 of 3"):
        loader.restore_state_rank(parts[2])


def test_numbers_of_ranks_that_the_lanes_do_not_allow_are_refused(data: Data) -> None:
    with running(pipeline_of("endless", data), Spread(2)) as run:
        steps_of(run, 1)
        states = run.states()
    with pytest.raises(StateError, match=r"12 lanes cannot be split over 5 ranks(.|\n)*1, 2, 3, 4, 6, 12"):
        redistributed(states, 5)
    with pytest.raises(StateError, match="expected at least 1 rank, found 0"):
        redistributed(states, 0)
    assert ranks_of_run(RunState.from_plain(states[0])) == [1, 2, 3, 4, 6, 12]


def test_lanes_visited_one_by_one_allow_any_number_of_ranks(data: Data) -> None:
    pipeline = pipeline_of("validation, lane by lane", data)
    expected = uninterrupted(pipeline)
    with running(pipeline, Spread(2)) as run:
        before = dict(steps_of(run, 2))
        states = run.states()
    assert ranks_of_run(RunState.from_plain(states[0])) is None
    loaders = [
        get_savable_loader(pipeline.build(WorkerConfig(rank=rank, world_size=5, num_workers=0))) for rank in range(5)
    ]
    for loader, state in zip(loaders, redistributed(states, 5), strict=True):
        loader.restore_state_rank(state)
        before |= {number_of(batch): fingerprint(batch) for batch in loader}
    assert before == expected


# --------------------------------------------------------------------------------------------------- different steps


def states_at(data: Data, *steps: int, **options: Any) -> list[RunState]:
    """Return the states of ranks after a number of steps each."""
    states = []
    for rank, count in enumerate(steps):
        build = options.get("build", partial(train, virtual_epoch_length=4))
        config = WorkerConfig(rank=rank, world_size=len(steps), num_workers=0, lanes=12)
        loader = get_savable_loader(build(data, config))
        for _ in zip(range(count), loader, strict=False):
            pass
        states.append(RunState.from_plain(loader.save_state_rank()))
    return states


def test_ranks_saved_after_different_steps_are_refused(data: Data) -> None:
    with pytest.raises(StateError, match="at different steps: the next micro-batches are 4, 6"):
        redistribute_states(states_at(data, 2, 3), 1)
    states = states_at(data, 2, 2)
    states[1] = replace(states[1], steps=[3])
    with pytest.raises(StateError, match=r"different steps: the counts of virtual epochs and limits are \[2\], \[3\]"):
        redistribute_states(states, 1)


def test_in_a_finite_pass_the_furthest_rank_determines_the_rest_of_a_limit(data: Data) -> None:
    states = states_at(data, 3, 2, build=partial(train, virtual_epoch_length=5, repeat=False))
    for order in (states, states[::-1]):
        (whole,) = redistribute_states(order, 1)
        assert (whole.steps, whole.batch) == ([3], 4)


def test_states_without_a_kind_must_be_of_the_same_step(data: Data) -> None:
    states = [replace(state, kind=None) for state in states_at(data, 3, 2, build=partial(train, repeat=False))]
    with pytest.raises(StateError, match="at different steps"):
        redistribute_states(states, 1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lanes": 0}, r"expected 'lanes' to be an integer >= 1, found 0"),
        ({"lanes": 10**30}, "expected 'lanes' to be an integer <= 4294967296, found 10"),
        ({"ranks": -1}, "expected 'ranks' to be an integer >= 1, found -1"),
        ({"rank": 2}, "expected 'rank' below 1, found 2"),
        ({"batch": -2}, "expected 'batch' to be an integer >= 0, found -2"),
        ({"lane": {"12": {}}}, "expected a lane below 12 in 'lane', found 12"),
        ({"lane": {"-1": {}}}, "lane: expected each key of 'lane' to be an integer >= 0, found {'-1'"),
        ({"lane": {"x": {}}}, "lane: expected each key of 'lane' to be an integer, found {'x'"),
        ({"lane": [1]}, r"lane: expected a dict, found \[1\]"),
        ({"steps": 3}, "expected 'steps' to be a list, found 3"),
        ({"lane": {"01": {}}}, "lane: expected each key of 'lane' to be an integer, found {'01'"),
        ({"lane": {1.5: {}}}, "lane: expected each key of 'lane' to be an integer, found {1.5"),
        ({"seed": float("inf")}, "expected 'seed' to be an integer, found inf"),
        ({"batch": 3.9}, "expected 'batch' to be an integer, found 3.9"),
        ({"batch": "3"}, "expected 'batch' to be an integer, found '3'"),
        ({"batch": True}, "expected 'batch' to be an integer, found True"),
        ({"batch": 2**60}, "expected 'batch' to be an integer <= 9007199254740991"),
        ({"steps": [-1]}, "expected 'steps.0.' to be an integer >= 0, found -1"),
        ({"kind": []}, r"expected 'kind' to be a text or None, found \[\]"),
        ({"passes": -1}, "expected 'passes' to be an integer >= 0"),
        ({"counted_on": 0}, "expected 'counted_on' to be an integer >= 1"),
        ({"dataset": None, "ranks": None}, "expected 'ranks' to be an integer, found None"),
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused(data: Data, changed: dict[str, Any], message: str) -> None:
    (state,) = states_at(data, 1)
    with pytest.raises(StateError, match=f"this state is damaged: .*{message}"):
        RunState.from_plain({**state.to_plain(), **changed})


def test_the_check_takes_no_time_per_missing_rank(data: Data) -> None:
    (state,) = states_at(data, 1)
    with pytest.raises(StateError, match="each of the 4,294,967,296 ranks"):
        merge_states([replace(state, ranks=1 << 32, lanes=1 << 32)], lockstep=True)


def test_a_redistribution_takes_no_time_per_missing_lane(data: Data) -> None:
    (state,) = states_at(data, 1)
    parts = redistribute_states([replace(state, lanes=1 << 32)], 4)
    assert [(part.rank, sorted(part.lane_states)) for part in parts] == [(0, []), (1, []), (2, []), (3, [0])]
