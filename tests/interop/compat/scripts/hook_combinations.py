"""Encoders with all combinations of hooks, with and without packing, and the numbers that hooks see."""

from __future__ import annotations

import itertools

from facts import Facts
from megatron.energon import (
    DefaultTaskEncoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    stateless,
)

DIFFERS = {
    "encode_and_preencode": "`encode_sample` without packing, `preencode_sample` with it",
    "sample_numbers_of_packs": "numbers the samples of all lanes: of 48 lanes, lane 1 has 1, 49, 97",
}

facts = Facts()


def text_of(sample):
    return sample if isinstance(sample, str) else " ".join(sample.text.split()[:2])


class Encoder(DefaultTaskEncoder):
    def select_samples_to_pack(self, samples):
        return [samples[:2], samples[2:]]

    @stateless
    def pack_selected_samples(self, samples):
        return "+".join(text_of(sample) for sample in samples)

    def batch(self, samples):
        return [text_of(sample) for sample in samples]


class Encode(Encoder):
    @stateless
    def encode_sample(self, sample):
        return text_of(sample) + ">encode"


class Pre(Encoder):
    @stateless
    def preencode_sample(self, sample):
        return text_of(sample) + ">pre"


class Post(Encoder):
    @stateless
    def postencode_sample(self, sample):
        return text_of(sample) + ">post"


class PrePost(Pre, Post):
    pass


class EncodePost(Encode, Post):
    pass


class EncodePre(Encode, Pre):
    pass


def validation(encoder, packing=None):
    dataset = get_val_dataset(
        facts.folder / "texts",
        batch_size=2,
        packing_buffer_size=packing,
        task_encoder=encoder,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
    )
    return sorted(sample for batch in get_loader(dataset) for pack in batch for sample in pack.split("+"))


def training(encoder, workers=0, batches=4, **options):
    arguments = {
        "batch_size": 2,
        "shuffle_buffer_size": None,
        "max_samples_per_sequence": None,
        "task_encoder": encoder,
        "worker_config": WorkerConfig(rank=0, world_size=1, num_workers=workers),
    }
    dataset = get_train_dataset(facts.folder / "texts", **arguments | options)
    return list(itertools.islice(get_loader(dataset), batches))


for encoder in (Encode, Pre, Post, PrePost, EncodePost):
    for packing in (None, 4):

        def combination(encoder=encoder, packing=packing):
            return validation(encoder(), packing)

        combination.__name__ = f"{encoder.__name__}{'_packed' if packing else ''}"
        facts.add(combination)


@facts.add
def encode_and_preencode():
    return validation(EncodePre())[:2]


class Numbers(DefaultTaskEncoder):
    """Records the numbers of batches, which do not depend on the order of samples."""

    def batch(self, samples):
        return [self.current_batch_index, self.current_sample_index]

    @stateless
    def encode_batch(self, batch):
        return [*batch, self.current_batch_index, self.current_sample_index]


class NumbersOfSamples(Numbers):
    @stateless
    def encode_sample(self, sample):
        return [self.current_batch_index, self.current_sample_index]

    def batch(self, samples):
        return [index for index, _ in samples]


class NumbersInGenerator(Numbers):
    @stateless
    def encode_sample(self, sample):
        for _ in range(2):
            yield [self.current_batch_index, self.current_sample_index]

    def batch(self, samples):
        return samples


class NumbersOfPacks(NumbersOfSamples, Encoder):
    @stateless
    def pack_selected_samples(self, samples):
        return [self.current_batch_index, self.current_sample_index]

    def batch(self, samples):
        return [number for _, number in samples]


class Grouped(Numbers):
    def batch_group_criterion(self, sample):
        return 0, 2


@facts.add
def numbers_of_batches():
    return training(Numbers())


@facts.add
def numbers_of_batches_in_workers():
    return training(Numbers(), workers=2)


@facts.add
def numbers_of_grouped_batches():
    return training(Grouped(), batch_size=None)


@facts.add
def batch_numbers_of_samples():
    return training(NumbersOfSamples())


@facts.add
def numbers_in_generators():
    return training(NumbersInGenerator())


@facts.add
def sample_numbers_of_packs():
    return training(NumbersOfPacks(), packing_buffer_size=4)


@facts.add
def number_of_single_samples():
    return training(NumbersOfSamples(), batch_size=None)


if __name__ == "__main__":
    facts.report()
