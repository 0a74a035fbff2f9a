"""Metadatasets as training repositories write them: version 1, other top-level keys, variables in paths."""

from __future__ import annotations

import os
import warnings

from facts import Facts
from megatron.energon import DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset, get_val_dataset

warnings.simplefilter("ignore")
facts = Facts()


class Encoder(DefaultTaskEncoder):
    decoder = None

    def batch(self, samples):
        return samples


def write(name, text):
    path = facts.folder / name
    path.write_text(text)
    return path


def load(path, open_dataset=get_train_dataset, count=40, **options):
    if open_dataset is get_train_dataset:
        options |= {"shuffle_buffer_size": None, "max_samples_per_sequence": None}
    dataset = open_dataset(
        path,
        batch_size=4,
        task_encoder=Encoder(),
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        **options,
    )
    samples = []
    for batch in get_loader(dataset):
        samples.extend(batch)
        if len(samples) >= count:
            break
    return samples[:count]


HEAD = "__module__: megatron.energon\n__class__: {}\nsplits:\n"
V1 = HEAD.format("Metadataset")
V2 = HEAD.format("MetadatasetV2")
TRAIN = "  train:\n    datasets:\n    - {weight: 1, path: ./captions, subflavor: one, subflavors: {lang: en}}\n"


def flavors(samples):
    return sorted({str(sorted(sample.__subflavors__.items())) for sample in samples})


@facts.add
def version_one_subflavor():
    return flavors(load(write("one.yaml", V1 + TRAIN)))


@facts.add
def version_one_without_val_trains():
    return len(load(write("no_val.yaml", V1 + TRAIN)))


@facts.add
def version_one_without_val_validates():
    try:
        return len(load(write("no_val.yaml", V1 + TRAIN), get_val_dataset))
    except Exception:  # noqa: BLE001 - the classes of the errors differ
        return "refused"


@facts.add
def version_one_with_other_keys():
    return len(load(write("more.yaml", "dataset_name: mine\n" + V1 + TRAIN + "notes: {owner: me}\n")))


@facts.add
def version_two_with_other_keys():
    return len(load(write("more2.yaml", "dataset_name: mine\n" + V2 + "  train: {path: ./captions}\n")))


@facts.add
def variable_in_a_path():
    os.environ["COMPAT_DATA"] = str(facts.folder)
    return len(load(write("variable.yaml", V2 + "  train: {path: '${COMPAT_DATA}/captions'}\n")))


@facts.add
def variable_with_a_default():
    os.environ.pop("COMPAT_UNSET", None)
    return len(load(write("default.yaml", V2 + "  train: {path: '${COMPAT_UNSET:captions}'}\n")))


facts.report()
