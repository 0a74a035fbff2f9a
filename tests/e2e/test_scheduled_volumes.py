"""Runs whose weights are shares of volumes and change at steps or samples: shares, and resumes on other ranks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader import ConfigError, TaskEncoder, WorkerConfig, get_loader, get_savable_loader, sample_size_metric
from tests.e2e.drawing_encoders import Cooking, PackingTwice, number_in
from tests.e2e.mixed_data import MixedData
from tests.e2e.test_volume_blends import CASES as CONSTANT, Sized, SizedPacks, blend_of, data, tokens_of, train
from tests.elastic_runs import Pipeline, Spread, check_every_save, through_json, uninterrupted

__all__ = ["data"]  # a fixture

pytestmark = pytest.mark.filterwarnings("ignore:samples of .* are reached twice")

ALONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)


class Plain(TaskEncoder[Any, Any, Any, Any]):
    @sample_size_metric
    def tokens(self, sample: Any) -> int:
        return tokens_of(number_in(sample))


def steps(*weights: float, every: int = 3) -> dict[int, float]:
    return {every * row: weight for row, weight in enumerate(weights)}


def ramp(*weights: float, every: int = 40) -> dict[str, Any]:
    return {"unit": "samples", "change": "linear", "at": steps(*weights, every=every)}


def write(data: MixedData, name: str, entries: list[Any], unit: str | None = "tokens") -> Path:
    split = {"blend": entries} | ({} if unit is None else {"blend_weight_unit": unit})
    return data.write(name, {"train": split})


@pytest.fixture(scope="module")
def scheduled(data: MixedData) -> MixedData:
    """Write metadatasets whose weights change."""
    for unit in ("tokens", "letters"):
        entries = [{"weight": steps(2, 0, 1), "path": "texts"}, {"weight": steps(0, 1, 5), "path": "more"}]
        write(data, f"steps_{unit}.yaml", entries, unit)
        entries = [{"weight": ramp(2, 0, 1), "path": "texts"}, {"weight": 1, "path": "more"}]
        write(data, f"ramp_{unit}.yaml", entries, unit)
    inner = [{"weight": steps(0, 1, every=4), "path": "texts"}, {"weight": 1, "path": "more", "split_part": "val"}]
    write(data, "inner.yaml", inner, None)
    outer = [{"weight": steps(1, 3, 0, 1), "path": "inner.yaml"}, {"weight": 1, "path": "more"}]
    write(data, "nested_steps.yaml", outer)
    inner = [{"weight": ramp(0, 1), "path": "texts"}, {"weight": 1, "path": "more", "split_part": "val"}]
    write(data, "inner_pages.yaml", inner, "pages")
    write(data, "nested_ramp.yaml", [{"weight": 2, "path": "inner_pages.yaml"}, {"path": "more"}], None)
    return data


CASES: dict[str, tuple[str, type[Any], dict[str, Any]]] = {
    "steps": ("steps_tokens.yaml", Sized, {}),
    "a linear change over samples": ("ramp_tokens.yaml", Sized, {}),
    "nested, steps": ("nested_steps.yaml", Sized, {}),
    "nested, samples": ("nested_ramp.yaml", Sized, {}),
    "steps, packing after the metric": ("steps_tokens.yaml", SizedPacks, {"packing_buffer_size": 7}),
    "samples, packing after the metric": ("ramp_tokens.yaml", SizedPacks, {"packing_buffer_size": 7}),
    "steps, packs": ("steps_letters.yaml", SizedPacks, {"packing_buffer_size": 7}),
    "samples, packs": ("ramp_letters.yaml", SizedPacks, {"packing_buffer_size": 7}),
    "steps, column": ("steps_tokens.yaml", Cooking, {"batch_size": 2}),
    "samples, column, packing": ("ramp_tokens.yaml", PackingTwice, {"packing_buffer_size": 7}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_whose_weights_change_continues_exactly_on_other_ranks(scheduled: MixedData, case: str) -> None:
    name, encoder, options = CASES[case]
    pipeline = Pipeline(build=partial(train, scheduled, name, encoder, **options), batches=24, lanes=4)
    began = Spread(2)  # its steps are those at which weights change
    others = [Spread(1), Spread(4), Spread(1, 2), Spread(2, 1)]
    check_every_save(pipeline, began, others, reference=uninterrupted(pipeline, began), every=4)
