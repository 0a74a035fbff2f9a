"""The attributes and arguments of stages that code for megatron-energon uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loader.pipeline.contract.stage import SavableDataset
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.blend import BlendDataset
from loader.pipeline.stages.collect_garbage import GC_DEFAULT_EVERY_N_ITER, GcDataset
from loader.pipeline.stages.filter import FilterDataset
from loader.pipeline.stages.group_batch import GroupBatchDataset
from loader.pipeline.stages.iter_map import IterMapDataset
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.packing import PackingDataset
from loader.testing.stage import Values

SOURCE = Values(range(6))

WITH_UNUSED_ARGUMENTS: list[tuple[Callable[..., SavableDataset[Any]], dict[str, Any]]] = [
    (lambda **names: MapDataset(SOURCE, str, **names), {"stateless_map_fn": True, "map_fn_config": {}}),
    (lambda **names: FilterDataset(SOURCE, bool, **names), {"filter_fn_config": {}}),
    (lambda **names: BatchDataset(SOURCE, 2, **names), {"batcher_stateless": True, "batcher_config": {}}),
    (lambda **names: GroupBatchDataset(SOURCE, 2, lambda item: (item % 2, None), **names), {"batcher_stateless": True}),
    (lambda **names: IterMapDataset(SOURCE, iter, **names), {"stateless_iter_fn": True, "iter_map_fn_config": {}}),
    (lambda **names: PackingDataset(SOURCE, 2, list, sum, **names), {"packer_config": {}}),
]


def test_a_chain_is_walked_by_its_inner_datasets() -> None:
    batches: BatchDataset[Any] = BatchDataset(MapDataset(SOURCE, str), 2)
    assert batches.dataset.dataset is SOURCE
    assert batches.dataset.datasets == (SOURCE,)
    assert SOURCE.datasets == ()
    assert not hasattr(SOURCE, "dataset")
    blend: BlendDataset[Any] = BlendDataset((SOURCE, 2), (batches, 1))
    assert blend.dataset_weights == ((SOURCE, 2.0), (batches, 1.0))
    with pytest.raises(AttributeError, match="BlendDataset has 2 inner datasets"):
        _ = blend.dataset


def test_the_attributes_of_a_dataset_class_win() -> None:
    class Own(SavableDataset[Any]):
        def __init__(self, inner: Any) -> None:
            super().__init__(inner)
            vars(self)["dataset"] = "mine"  # as self.dataset = "mine", which type checkers refuse

    own: Any = Own(SOURCE)
    assert own.dataset == "mine"


@pytest.mark.parametrize(("make", "unused"), WITH_UNUSED_ARGUMENTS)
def test_unused_arguments_are_accepted_and_unknown_ones_refused(make: Any, unused: dict[str, Any]) -> None:
    make(**unused)
    with pytest.raises(TypeError, match="unexpected keyword argument 'drop_lastt'"):
        make(drop_lastt=True)


def test_stages_keep_their_arguments() -> None:
    packing: PackingDataset[Any] = PackingDataset(SOURCE, 3, list, sum, sample_encoder=abs)
    found = (packing.buffer_size, packing.pre_packer, packing.final_packer, packing.sample_encoder)
    assert found == (3, list, sum, abs)
    collecting = GcDataset(SOURCE, freeze=False)
    assert (collecting.every_n_iter, collecting.freeze) == (GC_DEFAULT_EVERY_N_ITER, False)


def test_the_length_of_an_iterator_function_is_mapped() -> None:
    assert len(IterMapDataset(SOURCE, iter)) == 6
    assert len(IterMapDataset(SOURCE, iter, len_map_fn=lambda items: items // 2)) == 3
