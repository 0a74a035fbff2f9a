"""Edit a run so that its weights become shares of volumes, or of samples again, and follow each sample."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import yaml

from loader import SavableDataset, TaskEncoder, TextSample, WorkerConfig, sample_size_metric, stateless
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
    state_of,
    train,
    without,
)
from tests.elastic_runs import Spread

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


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("first", [None, "tokens"])
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
    assert "mix of datasets has changed" in refusal(two, states)

    with following(two, Spread(4), states, allow=True) as run:
        parts, after = [*parts, run.steps(36)], run.states()
        longer = sequences(run.steps(140))
    assert {state["version"] for state in after} == {3}
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
