"""Properties of the stages, which determine the lanes and the length of a run."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from loader.pipeline.contract.stage import SavableDataset, StageTraits
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.blend import BlendDataset, MixBatchDataset
from loader.pipeline.stages.collect_garbage import GcDataset
from loader.pipeline.stages.concat import ConcatDataset
from loader.pipeline.stages.filter import FilterDataset
from loader.pipeline.stages.group_batch import GroupBatchDataset
from loader.pipeline.stages.iter_map import IterMapDataset
from loader.pipeline.stages.observers import LogSampleDataset
from loader.pipeline.stages.packing import PackingDataset
from loader.pipeline.stages.repeat import RepeatDataset
from loader.pipeline.stages.shuffle_buffer import ShuffleBufferDataset
from loader.pipeline.stages.sort_pool import SortPoolDataset
from loader.testing.stage import Values

OTHER = WorkerConfig(rank=1, world_size=2, num_workers=3)


def source() -> Values:
    return Values(range(12))


def by_text(sample: object) -> tuple[str, int | None]:
    return str(sample), None


def stages(**named: Any) -> list[Any]:
    """Return each stage with its ``waits``, ``runs_user_code`` and ``items``."""
    return [
        (BlendDataset((source(), 1), (source(), 2), **named), False, False, None),
        (ConcatDataset(source(), source(), **named), False, False, 24),
        (FilterDataset(source(), filter_fn=bool, **named), False, True, None),
        (GcDataset(source(), **named), False, False, 12),
        (GroupBatchDataset(source(), 2, by_text, list, **named), True, True, None),
        (IterMapDataset(source(), iter, **named), False, True, None),
        (LogSampleDataset(source(), "train", **named), False, False, 12),
        (MixBatchDataset((source(), 1), (source(), 1), batch_size=2, **named), False, True, None),
        (PackingDataset(source(), 2, list, list, **named), True, True, None),
        (RepeatDataset(source(), repeats=2, restart=False, **named), False, False, 24),
        (ShuffleBufferDataset(source(), 2, **named), True, False, None),
    ]


STAGES = [pytest.param(*stage, id=type(stage[0]).__name__) for stage in stages()]


@pytest.mark.parametrize(("stage", "waits", "runs_user_code", "items"), STAGES)
def test_the_properties_of_a_stage(stage: Any, waits: bool, runs_user_code: bool, items: int | None) -> None:
    assert (stage.waits, stage.runs_user_code, stage.items) == (waits, runs_user_code, items)
    assert not stage.repeats


@pytest.mark.parametrize(("stage", "waits", "runs_user_code", "items"), STAGES)
def test_the_properties_of_a_chain_follow_from_its_stages(
    stage: Any, waits: bool, runs_user_code: bool, items: int | None
) -> None:
    above = GcDataset(BatchDataset(ConcatDataset(source(), stage), 2, sorted))

    assert above.waits == waits
    assert BlendDataset((source(), 1), (stage, 1)).runs_user_code == runs_user_code


@pytest.mark.parametrize(("stage", "waits", "runs_user_code", "items"), STAGES)
def test_the_identity_of_a_stage_is_plain_data(
    stage: Any, waits: bool, runs_user_code: bool, items: int | None
) -> None:
    assert json.loads(json.dumps(stage.identity())) == stage.identity()


def test_the_worker_config_is_by_default_that_of_the_first_input() -> None:
    assert all(stage.worker_config is OTHER for stage, *_ in stages(worker_config=OTHER))
    assert all(stage.worker_config == source().worker_config for stage, *_ in stages())


def test_arguments_that_only_other_libraries_need_are_accepted() -> None:
    FilterDataset(source(), filter_fn=bool, filter_fn_config={"a": 1})
    IterMapDataset(source(), iter, len_map_fn=int, stateless_iter_fn=True)
    GroupBatchDataset(source(), 2, by_text, list, batcher_stateless=True, failure_tolerance=3)
    PackingDataset(source(), 2, list, list, final_packer_stateless=True, packer_config={})
    for stage, *_ in stages():
        assert "worker_config" in inspect.signature(type(stage).__init__).parameters


def test_other_arguments_decide_whether_a_state_fits() -> None:
    assert ShuffleBufferDataset(source(), 2).identity() != ShuffleBufferDataset(source(), 3).identity()
    assert GroupBatchDataset(source(), 2, by_text).identity() != GroupBatchDataset(source(), 3, by_text).identity()
    assert PackingDataset(source(), 2, list, list).identity() != PackingDataset(source(), 3, list, list).identity()
    assert IterMapDataset(source(), iter).identity() != IterMapDataset(source(), iter, restart_after=3).identity()
    assert RepeatDataset(source()).identity() != RepeatDataset(source(), repeats=3).identity()
    one: BlendDataset[Any] = BlendDataset((source(), 1), (source(), 2))
    other: BlendDataset[Any] = BlendDataset((source(), 1), (source(), 3))
    assert one.identity() != other.identity()


class Pairs(SavableDataset[Any]):
    """A stage of a user that declares only the size of its batches."""

    traits = StageTraits(batches_of=2)


def test_the_length_of_a_stage_that_declares_batches_of_is_in_batches() -> None:
    assert len(Pairs(Values(range(7)))) == 4
    assert len(SortPoolDataset(Values(range(7)), 4, float, batch_size=2)) == 4
    assert len(SortPoolDataset(Values(range(7)), 4, float, batch_size=2, drop_last=True)) == 3
