"""The multimodal example of Megatron-LM: samples of several types, packing, loaders, states of data-parallel ranks."""

from __future__ import annotations

import dataclasses
import json
import sys
import traceback
import warnings
from dataclasses import dataclass

import torch
from facts import Facts
from megatron.energon import (
    Batch,
    CaptioningSample,
    DefaultTaskEncoder,
    LimitDataset,
    RepeatDataset,
    Sample,
    VQASample,
    WorkerConfig,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_datasets,
    stateless,
)

warnings.simplefilter("ignore")
facts = Facts()

DIFFERS: dict[str, str] = {}


@dataclass
class Encoded(Sample):
    images: list[torch.Tensor]
    tokens: torch.Tensor


@dataclass
class Packed(Sample):
    images: list[torch.Tensor]
    tokens: torch.Tensor
    ends: list[int]


@dataclass
class PackedBatch(Batch):
    tokens: torch.Tensor
    images: list[torch.Tensor]
    ends: list[list[int]]


class Encoder(DefaultTaskEncoder[Sample, Sample, PackedBatch, dict]):
    length = 24

    @stateless(restore_seeds=True)
    def encode_sample(self, sample):
        if isinstance(sample, CaptioningSample | VQASample):
            yield self.encode_captioning(sample)
        else:
            raise NotImplementedError("Sample format not supported", sample)

    def encode_captioning(self, sample):
        return Encoded(
            __key__=sample.__key__,
            __restore_key__=sample.__restore_key__,
            __subflavors__=sample.__subflavors__,
            images=[torch.zeros(3, 8, 8)],
            tokens=torch.tensor([len(word) for word in sample.caption.split()]),
        )

    def select_samples_to_pack(self, samples):
        groups = []
        for sample in sorted(samples, key=lambda sample: len(sample.tokens), reverse=True):
            for group in groups:
                if sum(len(one.tokens) for one in group) + len(sample.tokens) <= self.length:
                    group.append(sample)
                    break
            else:
                groups.append([sample])
        return groups

    @stateless
    def pack_selected_samples(self, samples):
        return Packed(
            __key__=",".join(sample.__key__ for sample in samples),
            __restore_key__=(),
            __subflavors__=samples[0].__subflavors__,
            images=[image for sample in samples for image in sample.images],
            tokens=torch.cat([sample.tokens for sample in samples]),
            ends=torch.tensor([len(sample.tokens) for sample in samples]).cumsum(0).tolist(),
        )

    def batch(self, samples):
        return PackedBatch(
            __key__=[sample.__key__ for sample in samples],
            __restore_key__=[sample.__restore_key__ for sample in samples],
            __subflavors__=samples[0].__subflavors__,
            tokens=torch.nn.utils.rnn.pad_sequence([sample.tokens for sample in samples], batch_first=True),
            images=[torch.stack(sample.images) for sample in samples],
            ends=[sample.ends for sample in samples],
        )

    def encode_batch(self, batch):
        raw = dataclasses.asdict(batch)
        raw["__subflavors__"] = json.dumps(raw["__subflavors__"])
        return raw


def print_error_handler(exc, key):
    print("Exception in the dataloader for sample", key, file=sys.stderr)
    traceback.print_exc()


def config(rank=0, ranks=1, workers=2):
    return WorkerConfig(
        rank=rank, world_size=ranks, num_workers=workers, data_parallel_group=None, worker_debug_path=None,
        worker_log_level=0,
    )  # fmt: skip


def train_dataset(worker_config, **options):
    return get_train_dataset(
        str(facts.folder / "captions"),
        batch_size=2,
        task_encoder=Encoder(),
        max_samples_per_sequence=100,
        shuffle_buffer_size=100,
        packing_buffer_size=16,
        worker_config=worker_config,
        **options,
    )


def val_datasets(worker_config):
    found = get_val_datasets(
        str(facts.folder / "captions"),
        batch_size=2,
        task_encoder=Encoder(),
        packing_buffer_size=16,
        worker_config=worker_config,
        handler=print_error_handler,
        image_decode="pil",
    )
    return [
        LimitDataset(
            RepeatDataset(dataset, worker_config=worker_config),
            length=7,
            worker_config=worker_config,
            reset_after_epoch=True,
        )
        for dataset, _source in found
    ]


def cyclic(loader):
    while True:
        yield from loader


@facts.add
def training_with_arguments_of_earlier_versions():
    dataset = train_dataset(config(), virtual_epoch_length=1000, handler=print_error_handler, image_decode="pil")
    batch = next(cyclic(get_savable_loader(dataset)))
    return sorted(batch), {name: type(batch[name]).__name__ for name in ("__key__", "__subflavors__", "tokens")}


@facts.add
def validation_cycles():
    (dataset,) = val_datasets(config())
    batches = cyclic(get_loader(dataset))
    return [len(next(batches)["__key__"]) for _ in range(10)]


@facts.add
def packs_of_validation():
    (dataset,) = val_datasets(config(workers=0))
    return [[batch["tokens"].tolist(), batch["ends"]] for batch in get_loader(dataset)]


@facts.add
def states_of_ranks():
    for rank in range(2):
        loader = get_savable_loader(train_dataset(config(rank, 2)))
        batches = cyclic(loader)
        for _ in range(3):
            next(batches)
        path = facts.folder / f"train_dataloader_dprank{rank:03}.pt"
        torch.save({"dataloader_state_dict": loader.save_state_rank()}, path)
        expected = [next(batches)["__key__"] for _ in range(3)]
        restored = get_savable_loader(train_dataset(config(rank, 2)))
        restored.restore_state_rank(torch.load(path, weights_only=False)["dataloader_state_dict"])
        batches = cyclic(restored)
        if [next(batches)["__key__"] for _ in range(3)] != expected:
            return False
    return True


facts.report()
