"""Edit a run so that its weights become shares of volumes, or of samples again, and follow each sample."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import yaml

from loader import (
    StateError,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    get_savable_loader,
    sample_size_metric,
    stateless,
)
from tests.e2e.test_edited_mixes import (
    LANES,
    Mixes,
    Packing,
    Plain,
    assert_continued,
    data,
    following,
    number_in,
    refusal,
    sequences,
    train,
    without,
)
from tests.elastic_runs import Spread, through_json

__all__ = ["data"]  # a fixture


def size_of(number: int) -> float:
    return 30.0 if number % 10 == 3 else 1.0 + number * 7 % 5


class Sized(Plain):
    @sample_size_metric
    def tokens(self, sample: TextSample) -> float:
        return size_of(number_in(sample))


class SizedPacking(Packing):
    @sample_size_metric
    def tokens(self, sample: TextSample) -> float:
        return size_of(number_in(sample))


class SizedPacks(Packing):
    @sample_size_metric(after="packing")
    def letters(self, sample: TextSample) -> float:
        return float(len(sample.text))


class Tripled(TaskEncoder[Any, Any, Any, Any]):
    """Encoder whose generator is consumed partly at most saves."""

    @stateless
    def encode_sample(self, sample: TextSample) -> Iterator[TextSample]:
        yield from (sample, sample, sample)

    @sample_size_metric
    def tokens(self, sample: TextSample) -> float:
        return size_of(number_in(sample))


def mix(config: WorkerConfig, *, data: Mixes, unit: str | None, weights: Mapping[str, Any], **options: Any) -> Any:
    """Build a run; the keys of ``weights`` are datasets, or names of nested metadatasets."""
    entries = [
        {"weight": weight, "path": name.partition(":")[0]}
        | ({"split_part": name.partition(":")[2]} if ":" in name else {})
        for name, weight in weights.items()
    ]
    split = {"blend": entries} | ({"blend_weight_unit": unit} if unit else {})
    path = data.folder / f"unit{len(list(data.folder.glob('unit*')))}.yaml"
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": split}}
    path.write_text(yaml.safe_dump(document))
    return train(path, config, **{"task_encoder": Sized()} | options)


OPTIONS: dict[str, dict[str, Any]] = {
    "samples": {},
    "packing": {"packing_buffer_size": 8, "task_encoder": SizedPacking()},
}


@pytest.mark.parametrize(
    ("first", "options"),
    [
        *((None, "samples"), ("tokens", "packing")),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((None, "packing"), ("tokens", "samples"))),
    ],
)
def test_a_run_is_followed_over_changes_of_the_unit_and_of_ranks(
    data: Mixes, caplog: pytest.LogCaptureFixture, options: str, first: str | None
) -> None:
    caplog.set_level(logging.WARNING, logger="loader")
    second = "tokens" if first is None else None
    build = partial(mix, data=data, **OPTIONS[options])
    one = partial(build, unit=first, weights={"a": 3, "b": 2, "c:val": 1})
    two = partial(build, unit=second, weights={"d": 2, "a": 1, "c": 1})  # b is gone, c has another part
    three = partial(build, unit=second, weights={"a": 2, "d": 1})  # without another kind of blends
    four = partial(build, unit=first, weights={"d": 1, "a": 1, "b": 1})
    with following(one, Spread(1)) as run:
        undisturbed = sequences(run.steps(160))
    with following(one, Spread(2, 1)) as run:
        parts, states = [run.steps(30)], run.states()
    of_units = f"unit of the weights: {first or 'samples'} → {second or 'samples'}"
    refused = refusal(two, states)
    assert "mix of datasets has changed" in refused
    assert of_units in refused
    only_unit = refusal(partial(build, unit=second, weights={"a": 3, "b": 2, "c:val": 1}), states)
    assert of_units in only_unit
    assert "another order" not in only_unit

    with following(two, Spread(4), states, allow=True) as run:
        parts, after = [*parts, run.steps(36)], run.states()
        longer = sequences(run.steps(140))
    assert {state["version"] for state in after} == {3}
    assert of_units in caplog.text
    assert "a, train: continues at" in caplog.text
    assert "c, train: changed: split part val → train (starts over), weight 0.167 → 0.25" in caplog.text
    assert "b, train: gone, weight 0.333" in caplog.text
    assert "d, train: new, weight 0.5" in caplog.text
    with following(two, Spread(1, 2), states, allow=True) as run:
        again = run.steps(38)
    assert {batch: again[batch] for batch in sorted(parts[1])} == parts[1], "ranks and workers change nothing"
    assert_continued("a", sequences(*parts), undisturbed)
    assert not any(1000 <= number < 2000 for numbers in parts[1].values() for number in numbers)

    with following(two, Spread(2), after) as run:  # without the flag: the documents are the same
        parts, states = [*parts, run.steps(20)], run.states()
    with following(three, Spread(1, 1), states, allow=True) as run:
        parts, states = [*parts, run.steps(20)], run.states()
    assert_continued("a", sequences(*parts), undisturbed)
    assert_continued("d", sequences(*parts[1:]), longer)

    with following(four, Spread(2, 1), states, allow=True) as run:
        parts, states = [*parts, run.steps(40)], run.states()
    assert_continued("a", sequences(*parts), undisturbed)
    assert_continued("d", sequences(*parts[1:]), longer)
    assert any(1000 <= number < 2000 for numbers in parts[-1].values() for number in numbers), "b is new"
    with following(four, Spread(4, 1), states) as run:
        resumed = run.steps(24)
    with following(four, Spread(1), states) as run:
        assert run.steps(24) == resumed
    assert [bool(entry.get("restructured")) for entry in states[0]["mix_changes"]] == [True, False, True]


def test_a_dataset_that_moves_in_a_tree_of_blends_continues(data: Mixes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="loader")
    path = data.folder / "inner.yaml"
    head = {"__module__": "megatron.energon", "__class__": "MetadatasetV2"}
    inner = {"blend": [{"path": "b"}, {"path": "c", "weight": 2}], "blend_weight_unit": "tokens"}
    path.write_text(yaml.safe_dump({**head, "splits": {"train": inner}}))
    build = partial(mix, data=data, unit="tokens")
    flat = partial(build, weights={"a": 1, "b": 1, "c": 1})
    nested = partial(build, weights={"a": 1, "inner.yaml": 3})
    samples = partial(mix, data=data, unit=None, weights={"a": 1, "inner.yaml": 3})
    with following(flat, Spread(1)) as run:
        undisturbed = sequences(run.steps(300))
    with following(flat, Spread(2)) as run:
        parts, states = [run.steps(30)], run.states()
    for edited, spread in ((nested, Spread(4)), (samples, Spread(1, 1)), (flat, Spread(2))):
        caplog.clear()
        with following(edited, spread, states, allow=True) as run:
            parts, states = [*parts, run.steps(36)], run.states()
        assert caplog.text.count("continues at") == 3
        for name in "abc":
            assert_continued(name, sequences(*parts), undisturbed)
    with following(flat, Spread(1), states) as run:
        parts.append(run.steps(30))
    for name in "abc":
        assert_continued(name, sequences(*parts), undisturbed)


@pytest.mark.parametrize("unit", ["tokens", None])
def test_a_schedule_counts_its_steps_and_samples_on_over_a_change_of_the_unit(data: Mixes, unit: str | None) -> None:
    other = None if unit else "tokens"
    weights = {"a": {"unit": "samples", "at": {0: 1, 100: 0}}, "b": {"unit": "samples", "at": {0: 0, 100: 1}}}
    build = partial(mix, data=data, batch_size=1)
    with following(partial(build, unit=unit, weights={"a": 1}), Spread(2)) as run:
        run.steps(40)
        states = run.states()
    with following(partial(build, unit=other, weights=weights), Spread(1), states, allow=True) as run:
        found = run.steps(100)
    assert [found[batch][0] < 1000 for batch in sorted(found)] == [True] * 60 + [False] * 40


def test_the_rest_of_a_partly_consumed_generator_follows_its_dataset(data: Mixes) -> None:
    build = partial(mix, data=data, task_encoder=Tripled(), weights={"a": 1, "b": 1})
    with following(partial(build, unit=None), Spread(1)) as run:
        undisturbed = sequences(run.steps(100))
    with following(partial(build, unit=None), Spread(2)) as run:
        parts, states = [run.steps(30)], run.states()
    with following(partial(build, unit="tokens"), Spread(4), states, allow=True) as run:
        parts.append(run.steps(30))
        states = run.states()
    for name in "ab":
        assert_continued(name, sequences(*parts), undisturbed)
    # Now each dataset has its own generator, and both may be partly consumed.
    found = refusal(partial(build, unit=None), states, allow=True)
    assert "buffers items of several datasets in 'encode_sample'" in found
    assert "save the state at another step if a generator is partly consumed" in found


def test_packs_of_each_dataset_are_no_packs_of_all(data: Mixes) -> None:
    build = partial(mix, data=data, packing_buffer_size=8, weights={"a": 1, "b": 1})
    by_packs = partial(build, unit="letters", task_encoder=SizedPacks())
    plain = partial(build, unit=None, task_encoder=SizedPacks())
    for first, second in ((by_packs, plain), (plain, by_packs)):
        with following(first, Spread(1)) as run:
            undisturbed = sequences(run.steps(120))
        refused = 0
        for steps in range(28, 36):  # if but one dataset has a buffer, the change is exact
            with following(first, Spread(1)) as run:
                parts, states = [run.steps(steps)], run.states()
            try:
                with following(second, Spread(2), states, allow=True) as run:
                    parts.append(run.steps(30))
            except StateError as error:
                refused += 1
                assert "has one buffer for each dataset before or after the change" in str(error)  # noqa: PT017
                assert "count samples before packing" in str(error)  # noqa: PT017
                continue
            for name in "ab":
                assert_continued(name, sequences(*parts), undisturbed)
        assert refused


def test_samples_in_buffers_of_datasets_that_are_gone_are_dropped_and_no_others(
    data: Mixes, caplog: pytest.LogCaptureFixture
) -> None:
    options = OPTIONS["packing"]
    for first, second in (("tokens", None), (None, "tokens")):
        one = partial(mix, data=data, unit=first, weights={"a": 1, "b": 1}, **options)
        two = partial(mix, data=data, unit=second, weights={"a": 1, "d": 1}, **options)
        with following(one, Spread(1)) as run:
            undisturbed = sequences(run.steps(100))
        with following(one, Spread(2)) as run:
            before, states = run.steps(30), run.states()
        caplog.clear()
        with following(two, Spread(1), states, allow=True) as run:
            after = run.steps(40)
        assert "from buffers: their datasets are gone from the mix" in caplog.text
        for lane in range(LANES):
            assert not without(sequences(before, after)[lane, "a"], undisturbed[lane, "a"])


def test_the_volumes_of_a_nested_blend_that_left_the_mix_stay_in_the_state(data: Mixes) -> None:
    for name in "ab":
        split = {"blend": [{"path": name, "weight": 1}], "blend_weight_unit": "tokens"}
        document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": split}}
        (data.folder / f"only_{name}.yaml").write_text(yaml.safe_dump(document))
    build = partial(mix, data=data, unit="tokens")
    one = partial(build, weights={"only_a.yaml": 3, "d": 1})
    two = partial(build, weights={"only_b.yaml": 1, "d": 1})
    with following(one, Spread(1)) as run:
        run.steps(16)
        states = run.states()
    with following(two, Spread(2), states, allow=True) as run:
        run.steps(8)
        later, after = run.states(), run.steps(16)
    with following(two, Spread(4), later) as run:
        resumed = run.steps(8)
    assert {number: after[number] for number in resumed} == resumed


@pytest.mark.parametrize("first", [None, "tokens"])
def test_each_rank_changes_the_unit_of_its_own_lanes_and_together_they_are_the_run(
    data: Mixes, first: str | None
) -> None:
    second = "tokens" if first is None else None
    build = partial(mix, data=data, **OPTIONS["packing"])
    one = partial(build, unit=first, weights={"a": 1, "b": 1})
    two = partial(build, unit=second, weights={"a": 1, "d": 1})
    with following(one, Spread(2)) as run:
        run.steps(18)
        states = run.states()
    loaders = [get_savable_loader(two(WorkerConfig(rank=rank, world_size=2, num_workers=0))) for rank in range(2)]
    for loader, state in zip(loaders, states, strict=True):
        loader.restore_state_rank(state, allow_mix_change=True)
    later = through_json([loader.save_state_rank() for loader in loaders])
    with following(two, Spread(4), later) as run:
        parted = run.steps(20)
    with following(two, Spread(1), states, allow=True) as run:
        assert run.steps(20) == parted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("streams", [[0]]),
        ("streams", None),
        ("consumed", {"0": [1]}),
        ("consumed", {"x": [1, 1]}),
        ("held", {"0": [[0]]}),
        ("lanes", {"0": -1}),
        ("origins", [5, 5]),
    ],
)
def test_damaged_edits_of_the_unit_are_refused(data: Mixes, name: str, value: Any) -> None:
    build = partial(mix, data=data, weights={"a": 1, "b": 1})
    with following(partial(build, unit="tokens"), Spread(1)) as run:
        run.steps(8)
        states = run.states()
    path = partial(build, unit=None)
    with following(path, Spread(1), states, allow=True) as run:
        [state] = run.states()
    state["mix_changes"][0]["stages"]["0 read"][name] = value
    loader = get_savable_loader(path(WorkerConfig(rank=0, world_size=1, num_workers=0)))
    with pytest.raises(StateError, match=r"damaged|not known on this rank"):
        next(iter(loader.with_restored_state_rank(state)))
