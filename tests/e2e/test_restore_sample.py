"""``restore_sample`` rebuilds every batch and every sample from its key alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch

from loader import (
    BatchDataset,
    BlendDataset,
    ConcatDataset,
    FilterDataset,
    IterMapDataset,
    MapDataset,
    MixBatchDataset,
    RepeatDataset,
    SavableDataset,
    ShuffleBufferDataset,
    StateError,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    get_savable_loader,
    stateless,
)
from tests.e2e.drawing_encoders import Kept, KeptCooking, KeptCrude, KeptGroups, KeptYielding, Together, draws
from tests.e2e.drawing_pipelines import Build, Data, is_odd, train, two_and_two, val, write_data
from tests.elastic_runs import fingerprint, restore_key_of, through_json


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("again"))


def together(samples: list[Any]) -> Together:
    return Together(__key__=[sample.__key__ for sample in samples], samples=samples, drawn=draws())


def in_batches(dataset: SavableDataset[Any]) -> SavableDataset[Any]:
    return BatchDataset(dataset, 3, together)


def kept(
    data: Data, config: WorkerConfig, *, encoder: type[TaskEncoder[Any, Any, Any, Any]] = Kept, **options: Any
) -> SavableDataset[Any]:
    return train(data, config, encoder=encoder, **options)


def kept_singles(data: Data, config: WorkerConfig, **options: Any) -> SavableDataset[Any]:
    return kept(data, config, batch_size=None, **options)


AGAIN: dict[str, Build] = {
    "plain": kept,
    "single samples": kept_singles,
    "crude": partial(kept, encoder=KeptCrude, path="crude"),
    "cooked": partial(kept, encoder=KeptCooking, path="crude"),
    "several samples of each": partial(kept, encoder=KeptYielding),
    "grouping": partial(kept, encoder=KeptGroups),
    "packing": partial(kept, packing_buffer_size=7),
    "packing several of each": partial(kept, encoder=KeptYielding, packing_buffer_size=7),
    "virtual epochs": partial(kept, virtual_epoch_length=100),
    "one pass": partial(kept, repeat=False),
    "filter": lambda data, config: in_batches(FilterDataset(kept_singles(data, config), is_odd)),
    "map": lambda data, config: MapDataset(
        in_batches(MapDataset(kept_singles(data, config), stateless(restore_seeds=True)(louder))), batch_louder
    ),
    "blend": lambda data, config: in_batches(
        BlendDataset((kept_singles(data, config), 1), (kept_singles(data, config, path="more"), 2))
    ),
    "blend of batches": lambda data, config: BlendDataset(
        (kept(data, config), 1), (kept(data, config, encoder=KeptGroups, path="more"), 2)
    ),
    "mix-batch": lambda data, config: MixBatchDataset(
        (kept(data, config, batch_size=1), 1),
        (kept(data, config, path="more", batch_size=1), 2),
        batch_size=4,
        batch_mix_fn=together,
    ),
    "one after another": lambda data, config: ConcatDataset(
        kept(data, config, path="more", repeat=False, batch_size=9), kept(data, config)
    ),
    "repeated": lambda data, config: RepeatDataset(kept(data, config, path="more", repeat=False, batch_size=9)),
    "repeated single samples": lambda data, config: in_batches(
        RepeatDataset(kept_singles(data, config, path="more", repeat=False))
    ),
    "shuffle buffer": lambda data, config: in_batches(ShuffleBufferDataset(kept_singles(data, config), 7)),
    "iter-map": lambda data, config: in_batches(IterMapDataset(kept_singles(data, config), two_and_two)),
    "validation": lambda data, config: val(data, config, encoder=Kept),
    "validation, packing": lambda data, config: val(data, config, encoder=Kept, packing_buffer_size=7),
}


def louder(sample: TextSample) -> TextSample:
    return TextSample.extend(sample, text=f"{sample.text}! {draws()}")


def batch_louder(batch: Together) -> Together:
    return Together.extend(batch, drawn=f"{batch.drawn}! {draws()}")


def parts_of(item: Any) -> Iterator[Any]:
    """Yield a batch and all items in it, down to single samples."""
    yield item
    for sample in getattr(item, "samples", ()):
        yield from parts_of(sample)


def content_of(item: Any) -> bytes:
    """Return the content of a batch or sample, without the micro-batch index that its samples were first built for.

    Buffered samples are built for an earlier micro-batch than the one that delivers them.
    """
    for part in parts_of(copy := deepcopy(item)):
        if part is not copy:
            stage, lane, _, item_id = restore_key_of(part)
            stamp = part.__setitem__ if isinstance(part, dict) else part.__setattr__
            stamp("__restore_key__", (stage, lane, None, item_id))
    return fingerprint(copy)


@pytest.mark.parametrize("name", AGAIN)
@pytest.mark.sampled(8)
def test_every_batch_and_sample_is_made_again_from_its_key_alone(name: str, data: Data) -> None:
    build = AGAIN[name]
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)
    loader = get_savable_loader(build(data, config))
    batches = [batch for _, batch in zip(range(10), loader, strict=False)]
    again = get_savable_loader(build(data, config))
    assert again.can_restore_sample()
    random_state = random.getstate(), torch.get_rng_state().tolist()
    for batch in batches:
        for part in parts_of(batch):
            key = through_json(restore_key_of(part))
            assert content_of(again.restore_sample(key)) == content_of(part), key
    assert (random.getstate(), torch.get_rng_state().tolist()) == random_state


def test_keys_that_are_none_are_refused(data: Data) -> None:
    loader = get_savable_loader(kept(data, WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)))
    for key in ((), "train_0.tar/00007", ("2 encode_sample", 0)):
        with pytest.raises(StateError, match="expected the __restore_key__ of a sample or batch"):
            loader.restore_sample(key)
    with pytest.raises(StateError, match="lanes 0 to 3"):
        loader.restore_sample(("micro-batch", 4, 0, 7))
    with pytest.raises(StateError, match="no stage '5 pack'"):
        loader.restore_sample(("5 pack", 0, 0, 7))
