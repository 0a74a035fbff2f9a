"""Runs continue exactly where they stopped, on any number of ranks and workers: one test for each pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader import SavableDataLoader, StateError, TaskEncoder, TextSample, get_savable_loader
from tests.e2e.drawing_encoders import (
    Augmented,
    Cooking,
    Failing,
    Grouping,
    Kept,
    Packing,
    PackingFails,
    PackingTwice,
    PackingYields,
    Skipping,
    Yielding,
    YieldingBatches,
    YieldingFails,
    number_in,
)
from tests.e2e.drawing_pipelines import (
    Build,
    Data,
    blend_of_batches,
    blend_of_samples,
    buffered,
    filtered,
    in_pairs,
    joined,
    limited,
    mixed,
    packed_by_hand,
    repeated,
    train,
    val,
    write_data,
)
from tests.e2e.text_dataset import exclude, write_texts
from tests.elastic_runs import (
    Pipeline,
    Run,
    Spread,
    check_every_save,
    fingerprint,
    restore_key_of,
    running,
    through_json,
    through_torch,
    uninterrupted,
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("elastic"))


@dataclass(frozen=True)
class Case:
    build: Build
    batches: int | None = 36
    known_ahead: bool = True
    lanes: int = 12
    saved_by: int = 2
    every: int = 1

    def pipeline(self, data: Data) -> Pipeline:
        return Pipeline(
            build=partial(self.build, data), batches=self.batches, known_ahead=self.known_ahead, lanes=self.lanes
        )


def one_pass(**options: Any) -> Build:
    return partial(train, repeat=False, **options)


ENDLESS = {
    "plain": Case(train, batches=72, lanes=24, saved_by=4),
    "plain, saved by many": Case(train, batches=72, lanes=24, saved_by=8),
    "single samples": Case(partial(train, batch_size=None), saved_by=3),
    "single samples, random SkipSample": Case(partial(train, batch_size=None, encoder=Skipping)),
    "single samples, several of each": Case(partial(train, batch_size=None, encoder=Yielding)),
    "not shuffled": Case(partial(train, shuffle_over_epochs_multiplier=None, shuffle_buffer_size=None)),
    "several epochs shuffled together": Case(partial(train, shuffle_over_epochs_multiplier=3, path="more"), saved_by=6),
    "slices drawn with replacement": Case(partial(train, shuffle_over_epochs_multiplier=-1)),
    "crude": Case(partial(train, encoder=TaskEncoder, path="crude"), lanes=4),
    "cooked": Case(partial(train, encoder=Cooking, path="crude")),
    "random SkipSample": Case(partial(train, encoder=Skipping)),
    "failing samples and batches": Case(partial(train, encoder=Failing)),
    "several samples of each": Case(partial(train, encoder=Yielding), saved_by=3),
    "several samples of each, that fail": Case(partial(train, encoder=YieldingFails), lanes=6, saved_by=3),
    "several batches of each": Case(partial(train, encoder=YieldingBatches), lanes=6),
    "blend": Case(blend_of_samples),
    "blend of several of each": Case(partial(blend_of_samples, encoder=Yielding), lanes=6, every=2),
    "blend of batches": Case(blend_of_batches),
    "filter": Case(filtered),
    "grouping": Case(partial(train, encoder=Grouping), lanes=8),
    "packing": Case(partial(train, encoder=Packing, packing_buffer_size=9), lanes=8),
    "packing, pre- and postencoded": Case(partial(train, encoder=PackingTwice, packing_buffer_size=9), saved_by=3),
    "packing that fails": Case(partial(train, encoder=PackingFails, packing_buffer_size=9), lanes=4),
    "packing several of each": Case(partial(train, encoder=PackingYields, packing_buffer_size=8), batches=24, lanes=4),
    "packing of filtered": Case(packed_by_hand, lanes=4),
    "mix-batch": Case(mixed, saved_by=3),
    "shuffle buffer": Case(buffered, lanes=4),
    "iter-map": Case(in_pairs, lanes=6),
    "repeated passes": Case(partial(repeated, repeats=None)),
    "limit": Case(partial(limited, length=5)),
    "virtual epochs": Case(partial(train, virtual_epoch_length=4)),
}
PASSES = {
    "one pass": Case(one_pass(), None),
    "one pass of single samples": Case(one_pass(batch_size=None, path="more"), None, lanes=8),
    "one pass, last dropped": Case(one_pass(batch_drop_last=True, path="more"), None, lanes=6, saved_by=3),
    "one pass of single samples, random SkipSample": Case(
        one_pass(batch_size=None, encoder=Skipping, path="more"), None
    ),
    "validation": Case(val, None, lanes=8),
    "two passes and a half": Case(partial(repeated, repeats=2.5), None, lanes=8),
    "validation datasets one after another": Case(joined, None, saved_by=3),
}
JOINED = {
    "one pass, failing samples and batches": Case(one_pass(encoder=Failing), None, known_ahead=False, every=2),
    "validation, random SkipSample": Case(partial(val, encoder=Skipping, batch_size=2), None, known_ahead=False),
    "one pass, several samples of each": Case(one_pass(encoder=Yielding), None, known_ahead=False, lanes=8, every=3),
    "one pass, several batches of each": Case(
        one_pass(encoder=YieldingBatches, path="more"), None, known_ahead=False, lanes=4
    ),
    "one pass of a blend": Case(partial(blend_of_samples, repeat=False), None, known_ahead=False, lanes=6, every=4),
    "one pass, filtered": Case(partial(filtered, repeat=False), None, known_ahead=False),
    "one pass, grouping": Case(one_pass(encoder=Grouping), None, known_ahead=False, lanes=6, every=3),
    "one pass, packing": Case(
        one_pass(encoder=PackingTwice, packing_buffer_size=9), None, known_ahead=False, lanes=6, saved_by=3
    ),
    "validation datasets one after another, grouping": Case(
        partial(joined, encoder=Grouping), None, known_ahead=False, lanes=6
    ),
    "validation, packing": Case(
        partial(val, encoder=PackingTwice, packing_buffer_size=9), None, known_ahead=False, lanes=6
    ),
    "validation, grouping": Case(partial(val, encoder=Grouping), None, known_ahead=False, lanes=6, saved_by=3),
    "repeated passes that fail here and there": Case(partial(repeated, repeats=None, encoder=Failing)),
    "repeated passes, grouping": Case(partial(repeated, repeats=None, encoder=Grouping), lanes=4),
}
"""Passes whose stages drop or regroup samples: the ends of lanes are joined on each worker."""
ALL = ENDLESS | PASSES | JOINED


QUICK = (
    "cooked",
    "packing of filtered",
    "blend of batches",
    "mix-batch",
    "iter-map",
    "shuffle buffer",
    "repeated passes, grouping",
    "limit",
    "virtual epochs",
    "validation datasets one after another",
)
"""Pipelines that together have every stage; all others are saved at each step in the slow tests."""


@pytest.mark.parametrize(
    ("name", "every"),
    [*((name, 5) for name in QUICK), *(pytest.param(name, 1, marks=pytest.mark.slow) for name in ALL)],
)
@pytest.mark.sampled(2)
def test_a_run_saved_at_any_step_goes_on_exactly_on_other_ranks(name: str, every: int, data: Data) -> None:
    case, pipeline, saved_by = ALL[name], ALL[name].pipeline(data), Spread(ALL[name].saved_by)
    if name in JOINED:  # test_joined_lanes.py restores on other ranks and workers
        check_every_save(pipeline, saved_by, [saved_by], reference=uninterrupted(pipeline, saved_by), every=every)
    else:
        check_every_save(pipeline, saved_by, every=max(every, case.every))


# ----------------------------------------------------------------------------------------------------- worker processes

WITH_WORKERS = {
    "plain": (Case(train, saved_by=1), 2, [Spread(2, 1), Spread(1, 5), Spread(3, 0)]),
    "several samples of each": (Case(partial(train, encoder=Yielding)), 1, [Spread(1, 3), Spread(4, 0), Spread(1, 2)]),
    "packing several of each": (
        Case(partial(train, encoder=PackingYields, packing_buffer_size=8), saved_by=1),
        3,
        [Spread(2, 0), Spread(1, 5), Spread(3, 1)],
    ),
    "one pass": (
        Case(one_pass(path="more"), None, saved_by=2, lanes=4),
        1,
        [Spread(1, 3), Spread(2, 2), Spread(4, 0)],
    ),
    "validation": (Case(val, None, lanes=6, saved_by=1), 3, [Spread(2, 1), Spread(1, 2), Spread(3, 0)]),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in {"plain", "several samples of each"} else ())
        for name in WITH_WORKERS
    ],
)
@pytest.mark.sampled(4)
def test_worker_processes_change_nothing(name: str, data: Data) -> None:
    case, workers, restored_by = WITH_WORKERS[name]
    pipeline = case.pipeline(data)
    expected = uninterrupted(pipeline)
    steps = -(-len(expected) // case.saved_by)
    check_every_save(
        pipeline, Spread(case.saved_by, workers), restored_by, reference=expected, every=-(-steps // len(restored_by))
    )


def test_a_state_says_the_same_however_many_workers_there_are(data: Data) -> None:
    pipeline = ALL["packing, pre- and postencoded"].pipeline(data)
    states = []
    for workers in (0, 2):
        with running(pipeline, Spread(1, workers)) as run:
            for _ in range(20):
                run.step()
            states.append(run.states())
    assert states[0] == states[1]


# ---------------------------------------------------------------------------------------------------- special moments


def test_a_state_is_plain_data_and_no_larger_for_a_larger_shuffle_buffer(data: Data) -> None:
    sizes = []
    for shuffle_buffer_size in (100, 10_000):
        build = partial(train, data, batch_size=20, shuffle_buffer_size=shuffle_buffer_size)
        with running(Pipeline(build=build, lanes=48), Spread(1)) as run:
            for _ in range(100):
                run.step()
            state = run.states()
        assert through_json(state) == through_torch(state) == state
        sizes.append(len(json.dumps(state)) - len(str(shuffle_buffer_size)))
    assert sizes[0] == sizes[1] <= 8192


@pytest.mark.parametrize(
    ("build", "rest"),
    [
        (partial(train, virtual_epoch_length=3), [3, 2, 1, 3, 2, 1, 3]),
        (partial(limited, length=3), [3, 2, 1, 0, 2, 1, 0]),  # after its last micro-batch, before the loop has ended
    ],
    ids=["virtual epoch", "limit"],
)
@pytest.mark.sampled(2)
def test_a_virtual_epoch_or_limit_goes_on_where_it_was_saved(build: Build, rest: list[int], data: Data) -> None:
    pipeline = Pipeline(build=partial(build, data))
    with running(pipeline, Spread(2)) as run:
        for left in rest:
            with running(pipeline, Spread(3), through_json(run.states())) as restored:
                assert [[sum(1 for _ in loader) for _ in range(2)] for loader in restored.loaders] == [[left, 3]] * 3
            run.step()


def forever(loader: SavableDataLoader[Any]) -> Iterator[bytes]:
    while True:
        yield from map(fingerprint, loader)


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_virtual_epochs_go_on_over_the_ends_of_passes(ranks: int, data: Data) -> None:
    build = partial(train, data, path="more", repeat=False, batch_size=8, virtual_epoch_length=3)
    pipeline = Pipeline(build=build, lanes=10)  # passes of 5 micro-batches
    with running(pipeline, Spread(ranks)) as run:
        expected = [list(islice(forever(loader), 12)) for loader in run.loaders]
    for step in range(ranks - 1, 10, ranks):
        with running(pipeline, Spread(ranks)) as run:
            before = [list(islice(forever(loader), step)) for loader in run.loaders]
            states = through_json(run.states())
        with running(pipeline, Spread(ranks), states) as run:
            for rank, loader in enumerate(run.loaders):
                epoch = [fingerprint(batch) for batch in loader]
                assert len(epoch) == 3 - step % 3
                rest = islice(forever(loader), 12 - step - len(epoch))
                assert [*before[rank], *epoch, *rest] == expected[rank]


def test_ranks_in_different_passes_go_on_as_they_are_or_not_at_all(data: Data) -> None:
    build = partial(train, data, path="more", repeat=False, batch_size=8, virtual_epoch_length=100)
    pipeline = Pipeline(build=build, lanes=4)  # passes of 5 micro-batches: 3 for one rank, 2 for the other
    with running(pipeline, Spread(2)) as run:
        expected = [list(islice(forever(loader), 6)) for loader in run.loaders]
    with running(pipeline, Spread(2)) as run:
        before = [list(islice(forever(loader), 3)) for loader in run.loaders]
        states = run.states()
    with running(pipeline, Spread(2), states) as run:
        after = [list(islice(forever(loader), 3)) for loader in run.loaders]
    assert [[*start, *rest] for start, rest in zip(before, after, strict=True)] == expected
    with pytest.raises(StateError, match="in different passes over the data, so it cannot be restored on 1 rank"):
        Run(pipeline, Spread(1), states)


class FailingInARow(Augmented):
    def encode_sample(self, sample: TextSample) -> Any:
        if 170 <= number_in(sample) < 190:
            raise ValueError("one of many")
        return super().encode_sample(sample)


def test_a_run_goes_on_before_samples_that_fail_but_did_not_stop_it(data: Data) -> None:
    pipeline = Pipeline(build=partial(val, data, encoder=FailingInARow, batch_size=13), batches=None, lanes=1)
    assert sorted(check_every_save(pipeline, Spread(1))) == [0, 1, 2, 3]


def test_after_the_last_micro_batch_of_a_pass_comes_the_next_pass(data: Data) -> None:
    pipeline = Pipeline(build=partial(train, data, path="more", repeat=False), batches=None)
    with running(pipeline, Spread(1)) as run:
        while run.step():
            pass
        states = through_json(run.states())
        second = [fingerprint(batch) for batch in run.loaders[0]]
    with running(pipeline, Spread(2), states) as run:
        while run.step():
            pass
        assert [run.delivered[number] for number in sorted(run.delivered)] == second


def test_a_loader_that_was_used_goes_on_from_a_state(data: Data) -> None:
    pipeline = Pipeline(build=partial(train, data))
    with running(pipeline, Spread(1)) as run:
        for _ in range(5):
            run.step()
        states = run.states()
        for _ in range(9):
            run.step()
        (loader,) = run.loaders
        loader.restore_state_rank(states[0])
        again = [fingerprint(batch) for _, batch in zip(range(9), loader, strict=False)]
        assert again == [run.delivered[number] for number in range(5, 14)]


def test_a_state_of_none_starts_at_the_beginning(data: Data) -> None:
    pipeline = Pipeline(build=partial(train, data))
    with running(pipeline, Spread(1)) as run:
        run.loaders[0].restore_state_rank(None)
        run.loaders[0].restore_state_global(None)
        run.step()
        assert list(run.delivered) == [0]


def test_even_ranks_share_what_is_left_however_many_they_are(data: Data) -> None:
    pipeline = Pipeline(build=partial(val, data, even_ranks=True), batches=None)
    with running(pipeline, Spread(2)) as run:
        for delivered in range(0, 21, 2):
            states = through_json(run.states())
            for ranks in (1, 2, 3, 4, 6):
                with running(pipeline, Spread(ranks), states) as restored:
                    steps = (21 - delivered) // ranks
                    for _ in range(steps):
                        restored.step()
                    assert sorted(restored.delivered) == list(range(delivered, delivered + ranks * steps))
                    assert not restored.step()
            run.step()


# ---------------------------------------------------------------------------------------------------------- excluding


def keys_of_lanes(pipeline: Pipeline, spread: Spread, states: Any = None, steps: int = 20) -> dict[int, list[str]]:
    """Return the keys of the delivered samples by lane."""
    keys: dict[int, list[str]] = {}
    with running(pipeline, spread, states) as run:
        for loader in run.loaders:
            for _, batch in zip(range(steps), loader, strict=False):
                keys.setdefault(restore_key_of(batch)[1], []).extend(batch.__key__)
    return keys


def test_samples_excluded_between_saving_and_restoring_move_no_others(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts", train=(20, 17), val=(11, 13))
    data = Data(texts=texts, more=texts, crude=texts)
    pipeline = Pipeline(build=partial(train, data, encoder=Packing), lanes=4)
    with running(pipeline, Spread(2)) as run:
        for _ in range(4):
            run.step()
        states = through_json(run.states())
    before = keys_of_lanes(pipeline, Spread(1), states)
    left_out = ("train_0.tar/00007", "train_1.tar/00030")
    exclude(texts, *left_out)
    after = keys_of_lanes(pipeline, Spread(4), states)
    for lane, keys in before.items():
        left = [key for key in keys if key not in left_out]
        length = min(len(left), len(after[lane]))
        assert length >= 12
        assert after[lane][:length] == left[:length]
    assert any(name in keys for keys in before.values() for name in left_out)


def test_a_sample_excluded_while_it_waits_to_be_packed_is_missing_from_its_pack_alone(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts", train=(20, 17), val=(11, 13))
    data = Data(texts=texts, more=texts, crude=texts)
    build = partial(train, data, encoder=Kept, packing_buffer_size=9, batch_size=1)
    pipeline = Pipeline(build=build, lanes=1)
    with running(pipeline, Spread(1)) as run:
        run.step()
        states = through_json(run.states())
        (next_batch,) = [batch for _, batch in zip(range(1), run.loaders[0], strict=False)]
    excluded, *others = [sample.__key__ for sample in next_batch.samples[0].samples]
    exclude(texts, excluded)
    with running(pipeline, Spread(1), states) as run:
        (again,) = [batch for _, batch in zip(range(1), run.loaders[0], strict=False)]
    assert [sample.__key__ for sample in again.samples[0].samples] == others


def test_the_next_samples_take_the_place_of_one_excluded_from_validation(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts", train=(5,), val=(11, 13))
    data = Data(texts=texts, more=texts, crude=texts)
    pipeline = Pipeline(build=partial(val, data, encoder=TaskEncoder), batches=None)
    expected = [batch.__key__ for batch in get_savable_loader(pipeline.build(pipeline.config(0, Spread(1))))]
    left_out = "val_1.tar/00017"
    exclude(texts, left_out)
    found = [batch.__key__ for batch in get_savable_loader(pipeline.build(pipeline.config(0, Spread(1))))]
    remaining = [key for keys in expected for key in keys if key != left_out]
    assert found == [remaining[start : start + 3] for start in range(0, len(remaining), 3)] != expected
