"""Validation and passes that end with all kinds of hooks; the lengths of datasets and loaders; stored order."""

from __future__ import annotations

from itertools import islice

from facts import Facts
from megatron.energon import (
    DefaultTaskEncoder,
    SkipSample,
    WorkerConfig,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    stateless,
)

DIFFERS = {
    "lengths_of_plain_passes_on_two_workers": (
        "A pass whose number of micro-batches is known in advance has exactly that `len()`, and at most one short "
        "batch in the whole run."
    ),
    "stored_order_on_two_workers": "A run that is not shuffled follows the dataset on any number of workers.",
    "fewer_samples_than_ranks": "A dataset of fewer samples than ranks and workers repeats on all of them.",
}
facts = Facts()


class Numbers(DefaultTaskEncoder):
    def batch(self, samples):
        return [int(sample.text.split()[1]) for sample in samples]


class Generator(Numbers):
    @stateless
    def encode_sample(self, sample):
        yield sample


class Skips(Numbers):
    @stateless
    def encode_sample(self, sample):
        if int(sample.text.split()[1]) % 7 == 3:
            raise SkipSample
        return sample


class Packs(Numbers):
    def select_samples_to_pack(self, samples):
        return [samples[start : start + 3] for start in range(0, len(samples), 3)]

    @stateless
    def pack_selected_samples(self, samples):
        return samples[0]


class Groups(Numbers):
    def batch_group_criterion(self, sample):
        return int(sample.text.split()[1]) % 3, None


def config(workers=0, rank=0, ranks=1):
    return WorkerConfig(rank=rank, world_size=ranks, num_workers=workers)


def validation(encoder, workers, **options):
    return get_val_dataset(
        facts.folder / "texts", batch_size=32, task_encoder=encoder(), worker_config=config(workers), **options
    )


def one_pass(encoder, workers, **options):
    return get_train_dataset(
        facts.folder / "texts",
        batch_size=32,
        shuffle_buffer_size=20,
        max_samples_per_sequence=20,
        repeat=False,
        task_encoder=encoder(),
        worker_config=config(workers),
        **options,
    )


def observed(dataset):
    batches = list(get_savable_loader(dataset))
    return [len(batch) for batch in batches], sorted(number for batch in batches for number in batch)


@facts.add
def validation_with_each_kind_of_hook():
    return [
        observed(validation(encoder, workers, batch_drop_last=drop_last))[0]
        for encoder in (Numbers, Generator, Skips, Groups)
        for workers in (0, 1)
        for drop_last in (False, True)
    ]


@facts.add
def samples_of_validation():
    return [observed(validation(encoder, workers))[1] for encoder in (Generator, Skips, Groups) for workers in (0, 2)]


@facts.add
def packed_validation():
    return [observed(validation(Packs, workers, packing_buffer_size=100)) for workers in (0, 1)]


@facts.add
def a_pass_of_training_with_each_kind_of_hook():
    return [
        sorted(observed(one_pass(encoder, workers, batch_drop_last=drop_last))[0])
        for encoder in (Numbers, Generator, Skips, Groups)
        for workers in (0, 1)
        for drop_last in (False, True)
    ]


@facts.add
def samples_of_a_pass_of_training():
    return [observed(one_pass(encoder, workers))[1] for encoder in (Generator, Skips, Groups) for workers in (0, 2)]


def lengths(path, *, encoder=Numbers, **options):
    found = []
    for ranks, workers in ((1, 0), (1, 2), (1, 3), (2, 2), (3, 1)):
        for rank in range(ranks):
            arguments = {"batch_size": 8, "shuffle_buffer_size": 20, "max_samples_per_sequence": 20, **options}
            dataset = get_train_dataset(
                facts.folder / path,
                task_encoder=encoder(),
                worker_config=config(workers, rank, ranks),
                **arguments,
            )
            found.append([len(dataset), len(get_loader(dataset)), len(get_savable_loader(dataset))])
    return found


@facts.add
def lengths_of_endless_datasets():
    return [lengths("texts"), lengths("texts", batch_drop_last=True), lengths("texts", batch_size=None)]


@facts.add
def lengths_of_virtual_epochs():
    return lengths("texts", virtual_epoch_length=7)


@facts.add
def lengths_of_blends():
    return [lengths("mix.yaml"), lengths("mix.yaml", batch_drop_last=True)]


@facts.add
def lengths_of_repeated_datasets():
    (facts.folder / "repeated.yaml").write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend_epochized:\n"
        "      - {repetitions: 1.5, path: ./texts}\n      - {repetitions: 3, path: ./captions}\n"
    )
    return [lengths("repeated.yaml"), lengths("repeated.yaml", repeat=False, encoder=Generator)]


@facts.add
def lengths_of_hooks_that_change_the_number():
    return [
        lengths("texts", encoder=Generator),
        lengths("texts", encoder=Packs, packing_buffer_size=100),
        lengths("texts", encoder=Groups),
        lengths("texts", encoder=Generator, repeat=False),
    ]


@facts.add
def lengths_of_plain_passes():
    return [len(validation(Numbers, 0)), len(validation(Numbers, 1, batch_drop_last=True)), len(one_pass(Numbers, 0))]


@facts.add
def lengths_of_plain_passes_on_two_workers():
    return [len(validation(Numbers, 3, batch_drop_last=True)), observed(validation(Numbers, 2))[0]]


@facts.add
def lengths_of_limited_validation():
    return [len(validation(Numbers, 0, limit=3)), len(validation(Generator, 2, limit=3))]


def stored_order(workers):
    dataset = get_train_dataset(
        facts.folder / "texts",
        batch_size=8,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        shuffle_over_epochs_multiplier=None,
        parallel_shard_iters=1,
        task_encoder=Numbers(),
        worker_config=config(workers),
    )
    return list(islice(get_savable_loader(dataset), 80))


@facts.add
def stored_order_on_one_worker():
    return [stored_order(0), stored_order(1)]


@facts.add
def stored_order_on_two_workers():
    return stored_order(2)


@facts.add
def fewer_samples_than_ranks():
    (facts.folder / "two.yaml").write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    path: ./texts\n"
        "    subset: {range: [0, 2]}\n"
    )
    sizes = []
    for rank in range(3):
        dataset = get_train_dataset(
            facts.folder / "two.yaml",
            batch_size=2,
            shuffle_buffer_size=10,
            max_samples_per_sequence=None,
            task_encoder=Numbers(),
            worker_config=config(0, rank, 3),
        )
        sizes.append([len(batch) for batch in islice(get_savable_loader(dataset), 5)])
    return sizes


facts.report()
