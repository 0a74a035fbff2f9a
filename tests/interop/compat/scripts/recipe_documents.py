"""Metadatasets as training repositories write them: version 1, other top-level keys, variables in paths."""

from __future__ import annotations

import os
import warnings

from facts import Facts
from megatron.energon import DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset, get_val_dataset

warnings.simplefilter("ignore")
facts = Facts()

DIFFERS = {
    "version_one_with_other_keys": ("Documents of version 8 are read already: what 7.4.1 refuses in them works here."),
    "variable_in_a_path": "Documents of version 8 are read already: what 7.4.1 refuses in them works here.",
    "variable_with_a_default": "Documents of version 8 are read already: what 7.4.1 refuses in them works here.",
    "tags_and_the_class_recipe": "Documents of version 8 are read already: what 7.4.1 refuses in them works here.",
}


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


def labels(samples):
    return sorted({str(sorted(sample.__subflavors__.items())) for sample in samples})


def count(text, *arguments):
    """Load a document and count samples; a library may refuse it."""
    try:
        return len(load(write("document.yaml", text), *arguments))
    except Exception:  # noqa: BLE001 - the classes of the errors differ
        return "refused"


@facts.add
def version_one_subflavor():
    return labels(load(write("one.yaml", V1 + TRAIN)))


@facts.add
def version_one_without_val_trains():
    return count(V1 + TRAIN)


@facts.add
def version_one_without_val_validates():
    return count(V1 + TRAIN, get_val_dataset)


@facts.add
def version_one_with_other_keys():
    return count("dataset_name: mine\n" + V1 + TRAIN + "notes: {owner: me}\n")


@facts.add
def version_two_with_other_keys():
    return count("dataset_name: mine\n" + V2 + "  train: {path: ./captions}\n")


@facts.add
def variable_in_a_path():
    os.environ["COMPAT_DATA"] = str(facts.folder)
    return count(V2 + "  train: {path: '${COMPAT_DATA}/captions'}\n")


@facts.add
def variable_with_a_default():
    os.environ.pop("COMPAT_UNSET", None)
    return count(V2 + "  train: {path: '${COMPAT_UNSET:captions}'}\n")


@facts.add
def tags_and_the_class_recipe():
    return count(HEAD.format("Recipe") + "  train: {path: ./captions, tags: {lang: en}}\n")


@facts.add
def multipliers_of_nested_metadatasets():
    write("inner.yaml", V2 + "  train: {blend: [{path: ./captions, shuffle_over_epochs_multiplier: 3}]}\n")
    return count(V2 + "  train: {path: ./inner.yaml, shuffle_over_epochs_multiplier: 2}\n")


facts.report()
