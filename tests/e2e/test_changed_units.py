"""A run keeps the unit of its weights: a state is refused whose blends count something else than those of the run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import yaml

from loader import TextSample, WorkerConfig, sample_size_metric
from tests.e2e.test_edited_mixes import (
    Mixes,
    Plain,
    assert_continued,
    data,
    following,
    number_in,
    refusal,
    sequences,
    state_of,
    train,
)
from tests.elastic_runs import Spread

__all__ = ["data"]  # a fixture


class Sized(Plain):
    @sample_size_metric
    def tokens(self, sample: TextSample) -> float:
        return 1.0 + number_in(sample) % 5

    @sample_size_metric
    def letters(self, sample: TextSample) -> float:
        return float(len(sample.text))


def write(data: Mixes, name: str, unit: str | None, weights: Mapping[str, Any]) -> Any:
    """Write a metadataset; the keys of ``weights`` are datasets, or names of nested metadatasets."""
    split = {"blend": [{"path": name, "weight": weight} for name, weight in weights.items()]}
    split |= {"blend_weight_unit": unit} if unit else {}  # type: ignore[dict-item]
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": split}}
    path = data.folder / name
    path.write_text(yaml.safe_dump(document))
    return path


def mix(config: WorkerConfig, *, data: Mixes, unit: str | None, weights: Mapping[str, Any], **options: Any) -> Any:
    path = write(data, f"unit{len(list(data.folder.glob('unit*')))}.yaml", unit, weights)
    return train(path, config, **{"task_encoder": Sized()} | options)


BOTH = {"a": 3, "b": 2}
UNITS: dict[str, tuple[Any, Any, str]] = {
    "samples, then tokens": ((None, BOTH), ("tokens", BOTH), "samples, and is a share of tokens"),
    "tokens, then samples": (("tokens", BOTH), (None, {"b": 1, "a": 1}), "tokens, and is a share of samples"),
    "tokens, then letters": (("tokens", BOTH), ("letters", BOTH), "tokens, and is a share of letters"),
    "one dataset, then tokens": ((None, {"a": 1}), ("tokens", BOTH), "the only dataset, and is a share of tokens"),
    "tokens, then one dataset": (("tokens", BOTH), (None, {"a": 1}), "tokens, and is a share of the only dataset"),
    "below tokens": (
        ("tokens", {"a": 1, "plain.yaml": 1}),
        ("tokens", {"a": 1, "tokens.yaml": 1}),
        "samples, tokens, and is a share of tokens",
    ),
    "a schedule above tokens": (
        (None, {"a": 1, "tokens.yaml": 1}),
        (None, {"a": {"unit": "samples", "at": {0: 1, 90: 2}}, "tokens.yaml": 1}),
        "samples, and is a share of samples by a schedule",
    ),
}


@pytest.mark.parametrize("case", UNITS)
@pytest.mark.sampled(3)
def test_a_state_with_another_unit_is_refused_whatever_is_allowed(data: Mixes, case: str) -> None:
    for name, unit in (("plain", None), ("tokens", "tokens")):
        write(data, f"{name}.yaml", unit, {"b": 1, "c": 1})
    (unit, weights), (other_unit, others), expected = UNITS[case]
    states = state_of(partial(mix, data=data, unit=unit, weights=weights))
    for allow in (False, True):
        found = refusal(partial(mix, data=data, unit=other_unit, weights=others), states, allow=allow)
        assert "the unit of the weights has changed since this state was saved: the weight of " in found
        assert f"was a share of {expected}" in found
        assert "a run keeps the blend_weight_unit with which it began" in found
        assert "start a new run, without this state" in found


def test_a_dataset_that_moves_in_a_tree_of_blends_by_volume_starts_over_and_the_others_continue(
    data: Mixes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="loader")
    write(data, "inner.yaml", "tokens", {"b": 1, "c": 2})
    flat = partial(mix, data=data, unit="tokens", weights={"a": 1, "b": 1, "c": 1})
    nested = partial(mix, data=data, unit="tokens", weights={"a": 1, "inner.yaml": 3})
    with following(flat, Spread(1)) as run:
        undisturbed = sequences(run.steps(200))
    with following(flat, Spread(2)) as run:
        before, states = run.steps(30), run.states()
    for path, share in (("b", "0.333 → 0.25"), ("c", "0.333 → 0.5")):
        line = f"{data.folder}/{path}, train: moved to another blend (starts over), weight {share}"
        assert line in refusal(nested, states)
    with following(nested, Spread(4), states, allow=True) as run:
        after, states = run.steps(60), run.states()
    assert caplog.text.count("moved to another blend (starts over)") == 2
    assert_continued("a", sequences(before, after), undisturbed)
    with following(nested, Spread(1), states) as run:
        resumed = run.steps(12)
    with following(nested, Spread(2), states) as run:
        assert run.steps(12) == resumed


def test_a_nested_blend_of_another_unit_may_be_added(data: Mixes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="loader")
    write(data, "inner.yaml", None, {"b": 1, "c": 2})
    flat = partial(mix, data=data, unit="tokens", weights=BOTH)
    with following(flat, Spread(1)) as run:
        undisturbed = sequences(run.steps(160))
    with following(flat, Spread(1)) as run:
        before, states = run.steps(30), run.states()
    with following(
        partial(mix, data=data, unit="tokens", weights={"a": 1, "inner.yaml": 3}), Spread(2), states, allow=True
    ) as run:
        after = run.steps(40)
    for name in "ab":
        assert_continued(name, sequences(before, after), undisturbed)
    assert "c, train: new" in caplog.text


def test_the_volumes_of_a_nested_blend_that_left_the_mix_stay_in_the_state(data: Mixes) -> None:
    for name in "ab":
        write(data, f"only_{name}.yaml", "tokens", {name: 1})
    one = partial(mix, data=data, unit="tokens", weights={"only_a.yaml": 3, "d": 1})
    two = partial(mix, data=data, unit="tokens", weights={"only_b.yaml": 1, "d": 1})
    states = state_of(one, 16)
    with following(two, Spread(2), states, allow=True) as run:
        run.steps(8)
        later, after = run.states(), run.steps(16)
    with following(two, Spread(4), later) as run:
        resumed = run.steps(8)
    assert {number: after[number] for number in resumed} == resumed
