"""Arguments passed by keyword, direct calls of hooks' helpers, and the sources of samples and batches."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from inspect import signature

import torch
from facts import Facts
from megatron.energon import (
    Batch,
    Cooker,
    DefaultTaskEncoder,
    SampleDecoder,
    SourceInfo,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    batch_list,
    batch_pad_stack,
    batch_stack,
    cooker,
    edataclass,
    generic_batch,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    stateless,
)
from megatron.energon.epathlib import EPath

DIFFERS = {
    "a_source_as_dataclass": (
        "`SourceInfo` is a named tuple: `dataclasses.fields(source)` raises `TypeError`, and "
        "`dataclasses.asdict(sample)` keeps it; `source._asdict()` returns a dict."
    ),
    "indexes_of_sources": "Its `index` counts the samples of the whole dataset",
}

facts = Facts()


def load(encoder, path="texts", **options):
    dataset = get_train_dataset(
        facts.folder / path,
        **{"batch_size": 2} | options,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        task_encoder=encoder,
    )
    return get_savable_loader(dataset)


@facts.add
def batching_keywords():
    tensors = [torch.ones(2), torch.zeros(2)]
    return [
        batch_stack(batch=tensors).tolist(),
        batch_pad_stack(batch=tensors).tolist(),
        batch_list(batch=["a", "b"]),
        generic_batch(batch=["a", "b"]),
    ]


@edataclass
class LongText(TextSample):
    length: int


@facts.add
def sample_keywords():
    text = TextSample(__key__="a", __restore_key__=(), __subflavors__=None, text="a cat")
    crude = {"__key__": "a", "__restore_key__": (), "__subflavors__": {"x": 1}}
    return [
        LongText.extend(src=text, length=5).length,
        basic_sample_keys(crude_sample=crude)["__subflavors__"],
        SampleDecoder().decode(fname="a.txt", raw=b"a cat"),
        next(iter(signature(load(DefaultTaskEncoder()).restore_sample).parameters)),
    ]


@facts.add
def decorators_by_keyword():
    def identity(sample):
        return sample

    return [stateless(fn=identity) is identity, cooker(fn=identity, need_primary=True)(1)]


@facts.add
def fields_of_a_source():
    source = SourceInfo(dataset_path="/data", index=3, shard_name="a.tar", file_names=("3.txt",))
    return [source.index, source.shard_name, list(source.file_names)]


@facts.add
def a_source_as_dataclass():
    (source,) = next(iter(load(DefaultTaskEncoder(), batch_size=None))).__sources__
    try:
        names = [one.name for one in dataclasses.fields(source)]
    except TypeError:
        names = "TypeError"
    sample = TextSample(__key__="a", __restore_key__=(), text="", __sources__=(source,))
    kept = dataclasses.asdict(sample)["__sources__"][0]
    return names, type(kept).__name__, hasattr(source, "_asdict")


@facts.add
def indexes_of_sources():
    dataset = get_val_dataset(
        facts.folder / "texts", batch_size=None, worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0)
    )
    return [source.index for sample in get_savable_loader(dataset) for source in sample.__sources__][:3]


def shape(sources):
    """Return the types of sources, and the number and names of files."""
    if isinstance(sources, (list, tuple)) and not hasattr(sources, "shard_name"):
        return [type(sources).__name__, [shape(one) for one in sources]]
    return [sources.shard_name.split("/")[0], len(sources.file_names)]


@edataclass
class Texts(Batch):
    text: list


class ToBatch(DefaultTaskEncoder):
    def batch(self, samples):
        return Texts.from_samples(samples)

    def encode_batch(self, batch):
        return Texts.derive_from(batch, text=batch.text)


@stateless
def cook(sample):
    return TextSample(**basic_sample_keys(sample), text=sample["txt"])


class Packs(DefaultTaskEncoder):
    cookers = [Cooker(cook)]

    @stateless
    def encode_sample(self, sample):
        return TextSample.derive_from(sample, text=sample.text.upper())

    def select_samples_to_pack(self, samples):
        return [samples[:2], samples[2:]]

    @stateless
    def pack_selected_samples(self, samples):
        sources = tuple(source for sample in samples for source in sample.__sources__)
        return TextSample.derive_from(samples[0], text="", __sources__=sources)


@facts.add
def sources_of_a_sample():
    return shape(next(iter(load(DefaultTaskEncoder(), batch_size=None))).__sources__)


@facts.add
def sources_of_a_generic_batch():
    return shape(next(iter(load(DefaultTaskEncoder()))).__sources__)


@facts.add
def sources_of_a_batch_type():
    return shape(next(iter(load(ToBatch()))).__sources__)


@facts.add
def sources_of_packed_samples():
    return shape(next(iter(load(Packs(), "crude", packing_buffer_size=4))).__sources__)


def first_source():
    (source,) = next(iter(load(DefaultTaskEncoder(), batch_size=None))).__sources__
    return source


@facts.add
def folder_of_a_source():
    path = first_source().dataset_path
    folder = EPath(facts.folder / "texts")
    return [
        [type(path).__name__, path.name, path.is_dir(), path.is_local(), str(path / "x")[-7:]],
        [path == folder, len({path, folder}), hash(path) == hash(folder), pickle.loads(pickle.dumps(path)) == folder],
        [f"{path}" == str(facts.folder / "texts"), EPath(path) == folder, copy.deepcopy(path) == path],
        [(path / ".nv-meta" / ".info.json").is_file(), path.relative_to(path.parent)],
    ]


@facts.add
def a_source_is_a_dataclass():
    source = first_source()
    same = SourceInfo(
        dataset_path=EPath(facts.folder / "texts"),
        index=source.index,
        shard_name=source.shard_name,
        file_names=source.file_names,
    )
    return [
        source == same,
        len({source, same}),
        copy.deepcopy(source) == source,
    ]


facts.report()
