"""Epochs of small sources, files that nothing shuffles, and fractions of a pass, as code and tests expect them."""

from __future__ import annotations

from itertools import islice

from facts import Facts
from megatron.energon import (
    Cooker,
    CrudeJsonlDatasetFactory,
    DefaultTaskEncoder,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    get_loader,
    get_train_dataset,
    stateless,
)
from megatron.energon.epathlib import EPath

DIFFERS = {
    "so_it_has_with_a_shuffle_buffer": (
        "Each epoch of a small source arrives whole, also with a shuffle buffer, which never mixes two epochs.",
    ),
}
facts = Facts()


class Numbers(DefaultTaskEncoder):
    def batch(self, samples):
        return [int(sample.text.split()[1]) for sample in samples]


@stateless
def cook(crude):
    return TextSample(**basic_sample_keys(crude), text=crude["json"]["text"])


class Lines(Numbers):
    cookers = [Cooker(cook)]


def stream(path, *, batch_size=5, workers=0, epochs=3, size=None, **options):
    """Return the numbers of the samples that arrive in some epochs of a source of some size."""
    dataset = get_train_dataset(
        facts.folder / path,
        batch_size=batch_size,
        task_encoder=Numbers(),
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers),
        **options,
    )
    return list(islice((number for batch in get_loader(dataset) for number in batch), epochs * size))


def is_whole(numbers, size):
    """Return for each epoch True if it has each sample once."""
    return [len(set(numbers[start : start + size])) == size for start in range(0, len(numbers), size)]


@facts.add
def each_epoch_of_a_small_source_has_each_sample_once():
    return is_whole(stream("small", size=55, shuffle_buffer_size=None, max_samples_per_sequence=10), 55)


@facts.add
def so_it_has_with_batches_that_do_not_divide_it():
    return is_whole(stream("small", batch_size=7, size=55, shuffle_buffer_size=None, max_samples_per_sequence=10), 55)


@facts.add
def so_it_has_with_a_shuffle_buffer():
    return is_whole(stream("small", size=55, shuffle_buffer_size=100, max_samples_per_sequence=10), 55)


@facts.add
def one_shard_that_nothing_shuffles_keeps_its_order():
    return stream("small", size=55, shuffle_buffer_size=None, max_samples_per_sequence=None)


@facts.add
def a_file_that_nothing_shuffles_keeps_its_order():
    CrudeJsonlDatasetFactory.prepare_dataset(EPath(facts.folder / "lines.jsonl"))
    dataset = get_train_dataset(
        facts.folder / "lines.jsonl",
        batch_size=1,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        task_encoder=Lines(),
    )
    return list(islice((batch[0] for batch in get_loader(dataset)), 25))


def samples_of_a_pass(repetitions):
    document = facts.folder / f"pass_{repetitions}.yaml"
    document.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend_epochized:\n"
        f"    - {{path: small, repetitions: {repetitions}}}\n    - {{path: texts, repetitions: 1}}\n"
    )
    one = WorkerConfig(rank=0, world_size=1, num_workers=0)
    options = {"shuffle_buffer_size": None, "max_samples_per_sequence": None, "repeat": False}
    passes = [
        get_train_dataset(path, batch_size=1, worker_config=one, task_encoder=Numbers(), **options)
        for path in (document, facts.folder / "texts")
    ]
    mixed, alone = (sum(1 for _ in get_loader(dataset)) for dataset in passes)
    return mixed - alone


@facts.add
def fractions_of_a_pass_are_rounded_down():
    return [samples_of_a_pass(times) for times in (0.7, 1.5, 0.07, 2.29)]


facts.report()
