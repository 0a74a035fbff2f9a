"""Datasets of users: wrappers and sources with their own ``__iter__`` and state, and chains built by hand."""

from __future__ import annotations

from facts import Facts
from megatron.energon import (
    BlendDataset,
    Cooker,
    DefaultTaskEncoder,
    MapDataset,
    RepeatDataset,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    stateless,
)
from megatron.energon.flavors.base_dataset import SavableDataset
from megatron.energon.state import FlexState
from megatron.energon.wrappers.base import BaseWrapperDataset

DIFFERS = {
    "source_on_other_workers": "A restored run may have another number of workers.",
}

facts = Facts()


def config(workers=0):
    return WorkerConfig(rank=0, world_size=1, num_workers=workers)


def load(encoder, *, path="texts", workers=0, savable=False, **options):
    dataset = get_train_dataset(
        facts.folder / path,
        **{"batch_size": None, "repeat": False} | options,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        worker_config=config(workers),
        task_encoder=encoder,
    )
    return (get_savable_loader if savable else get_loader)(dataset)


class Pairs(BaseWrapperDataset):
    """Joins every two samples, and remembers an odd one."""

    _savable_fields = ("waiting", "count")

    def __init__(self, dataset, *, worker_config):
        super().__init__(dataset, worker_config=worker_config)
        self.reset_state_own()

    def reset_state_own(self):
        self.waiting = []
        self.count = 0

    def len_worker(self, worker_idx=None):
        return self.dataset.len_worker(worker_idx) // 2

    def __iter__(self):
        for sample in self.dataset:
            self.waiting.append(sample)
            if len(self.waiting) == 3:
                first, second, third = self.waiting
                self.waiting = [third]
                self.count += 2
                yield f"{self.count}: {sorted([first.text, second.text])}"

    def config(self):
        return {"type": type(self).__qualname__, "dataset": self.dataset.config()}


class Short(BaseWrapperDataset):
    """Passes samples with short texts, with its own save_state."""

    def __init__(self, dataset, *, worker_config):
        super().__init__(dataset, worker_config=worker_config)
        self.dropped = 0

    def reset_state_own(self):
        self.dropped = 0

    def len_worker(self, worker_idx=None):
        return self.dataset.len_worker(worker_idx)

    def __iter__(self):
        for sample in self.dataset:
            if len(sample.text) < 20:
                yield sample
            else:
                self.dropped += 1

    def save_state(self):
        return FlexState(dropped=self.dropped, **super().save_state())

    def restore_state(self, state):
        super().restore_state(state)
        self.dropped = state["dropped"]

    def config(self):
        return {"type": type(self).__qualname__, "dataset": self.dataset.config()}


class Numbers(SavableDataset):
    """A source without files, which divides its numbers among the workers."""

    _savable_fields = ("position",)

    def __init__(self, count, worker_config):
        super().__init__(worker_config)
        self.count = count
        self.items = "not a property of the library"
        self.position = 0

    def reset_state_own(self):
        self.position = 0

    def worker_has_samples(self):
        return True

    def len_worker(self, worker_idx=None):
        return self.count // max(1, self.worker_config.num_workers)

    def __iter__(self):
        workers = max(1, self.worker_config.num_workers) * self.worker_config.world_size
        while (number := self.position * workers + self.worker_config.global_worker_id()) < self.count:
            self.position += 1
            yield TextSample(__key__=str(number), __restore_key__=(), text=str(number))

    def config(self):
        return {"type": type(self).__qualname__, "count": self.count}


class WithPairs(DefaultTaskEncoder):
    def build_train_datasets(self, *, datasets, worker_config, batch_size, **options):
        dataset = super().build_train_datasets(
            datasets=datasets, worker_config=worker_config, batch_size=None, **options
        )
        return Pairs(dataset, worker_config=worker_config)


class WithShort(DefaultTaskEncoder):
    @stateless
    def encode_sample(self, sample):
        return sample

    def build_train_datasets(
        self, *, datasets, worker_config, batch_size, batch_drop_last=False, packing_buffer_size=None,
        virtual_epoch_length=0, shuffle_buffer_size=None, blend_mode=None, repeat=True,
    ):  # fmt: skip
        inner = [(RepeatDataset(one.dataset.build(), worker_config=worker_config), one.weight or 1) for one in datasets]
        dataset = BlendDataset(*inner, worker_config=worker_config)
        dataset = Short(dataset, worker_config=worker_config)
        dataset = self.build_encode_sample(dataset, worker_config=worker_config)
        return self.build_batch(
            dataset, batch_size=batch_size, batch_drop_last=batch_drop_last, worker_config=worker_config
        )

    def batch(self, samples):
        return [sample.text for sample in samples]


def resumes(encoder, steps, **options):
    """Check that a restored loader continues with what would have come."""
    loader = load(encoder(), savable=True, **options)
    batches = iter(loader)
    for _ in range(steps):
        next(batches)
    state = loader.save_state_rank()
    expected = [str(batch) for batch, _ in zip(batches, range(8), strict=False)]
    resumed = load(encoder(), savable=True, **options)
    resumed.restore_state_rank(state)
    return len(expected), [str(batch) for batch, _ in zip(resumed, range(8), strict=False)] == expected


@facts.add
def pairs():
    found = list(load(WithPairs()))
    return len(found), found[0].split(":")[0], found[-1].split(":")[0]


@facts.add
def pairs_resume():
    return resumes(WithPairs, 5)


@facts.add
def pairs_resume_with_workers():
    return resumes(WithPairs, 5, workers=2)


@facts.add
def a_wrapper_in_the_middle():
    batches = iter(load(WithShort(), batch_size=4, repeat=True))
    texts = [text for batch, _ in zip(batches, range(60), strict=False) for text in batch]
    return len(texts), all(len(text) < 20 for text in texts)


@facts.add
def a_wrapper_in_the_middle_resumes():
    return resumes(WithShort, 3, batch_size=4, repeat=True)


@facts.add
def a_wrapper_with_workers_resumes():
    return resumes(WithShort, 3, batch_size=4, repeat=True, workers=2)


def texts_of(workers, count=10):
    worker_config = config(workers)
    return MapDataset(Numbers(count, worker_config), lambda sample: sample.text, worker_config=worker_config)


@facts.add
def source():
    return list(get_loader(texts_of(0)))


@facts.add
def source_of_workers():
    return sorted(get_loader(texts_of(2)), key=int)


@facts.add
def source_resumes():
    loader = get_savable_loader(texts_of(2))
    batches = iter(loader)
    before = [next(batches) for _ in range(4)]
    state = loader.save_state_rank()
    resumed = get_savable_loader(texts_of(2))
    resumed.restore_state_rank(state)
    return sorted([*before, *resumed], key=int)


@facts.add
def source_on_other_workers():
    loader = get_savable_loader(texts_of(2))
    batches = iter(loader)
    before = [next(batches) for _ in range(4)]
    state = loader.save_state_rank()
    resumed = get_savable_loader(texts_of(1))
    resumed.restore_state_rank(state)
    return sorted([*before, *resumed], key=int)


@stateless
def cook(sample, **media_sources):
    return TextSample(**basic_sample_keys(crude_sample=sample), text=f"{sample['txt']} {sorted(media_sources)}")


class CookedByHand(DefaultTaskEncoder):
    cookers = [Cooker(cook)]

    @stateless
    def cook_crude_sample(self, sample, cooker, aux):
        cooked = super().cook_crude_sample(sample, cooker, aux)
        cooked.text += f" {cooker.cook.__name__} {sorted(aux)}"
        return cooked

    def build_train_datasets(self, *, datasets, worker_config, batch_size, **options):
        (one,) = datasets
        dataset = self.build_cook_crude_sample(
            one.dataset.build(),
            worker_config=worker_config,
            subflavors=one.dataset.subflavors,
            get_primary_aux=one.dataset.as_file_store,
            aux=one.aux,
        )
        dataset = self.build_encode_sample(dataset, worker_config=worker_config)
        return self.build_batch(dataset, batch_size=batch_size, worker_config=worker_config)

    def batch(self, samples):
        return [sample.text for sample in samples]


@facts.add
def cooked_by_hand():
    return sorted(text for batch in load(CookedByHand(), path="crude", batch_size=4) for text in batch)


@facts.add
def context_of_a_worker():
    worker_config = config()
    worker_config.worker_activate(7)
    try:
        return worker_config.active_worker_batch_index, WorkerConfig.active_worker_config is worker_config
    finally:
        worker_config.worker_deactivate()


facts.report()
