"""A dataset factory that sets its decoder, as Megatron-Bridge's chat datasets do."""

from __future__ import annotations

from facts import Facts, digest
from megatron.energon import (
    DefaultTaskEncoder,
    SampleDecoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
)

facts = Facts()


class Encoder(DefaultTaskEncoder):
    decoder = SampleDecoder(image_decode="torchrgb8")

    def batch(self, samples):
        return samples


def load(path, **options):
    dataset = get_train_dataset(
        facts.folder / path,
        batch_size=4,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        repeat=False,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        **options,
    )
    return [sample for batch in get_loader(dataset) for sample in batch]


@facts.add
def pictures():
    samples = load("captions", task_encoder=Encoder())
    return sorted([sample.caption, digest(sample.image)] for sample in samples)


facts.report()
