"""JSONL files and token files as datasets and as leaves, as text pretraining and instruction tuning use them."""

from __future__ import annotations

import struct

import numpy as np
from facts import Facts
from megatron.energon import (
    Cooker,
    DefaultTaskEncoder,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    stateless,
)
from megatron.energon.epathlib import EPath
from megatron.energon.flavors.jsonl.crude_jsonl_dataset import CrudeJsonlDatasetFactory

DIFFERS = {
    "token_files_in_a_blend": (
        "Token files of Megatron-LM, Parquet files and folders of JSONL files are datasets here, as version 8 announces"
    ),
}

facts = Facts()


@stateless
def cook(sample):
    return TextSample(**basic_sample_keys(sample), text=sample["json"]["text"])


@stateless
def cook_tokens(sample):
    return TextSample(**basic_sample_keys(sample), text=" ".join(map(str, sample["tokens"])))


class Encoder(DefaultTaskEncoder):
    cookers = [Cooker(cook)]


class TokenEncoder(DefaultTaskEncoder):
    cookers = [Cooker(cook_tokens)]


def build(path, encoder, **options):
    return get_train_dataset(
        path,
        batch_size=4,
        shuffle_buffer_size=10,
        max_samples_per_sequence=10,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        task_encoder=encoder,
        **options,
    )


def texts(dataset):
    return sorted(text for batch in get_loader(dataset) for text in batch.text)


def write_mix(name, split):
    path = facts.folder / name
    path.write_text(f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n{split}")
    return path


def write_tokens(prefix, sequences):
    arrays = [np.array(sequence, "<u2") for sequence in sequences]
    lengths = np.array([len(array) for array in arrays])
    offsets = np.cumsum([0, *(2 * lengths)])[:-1]
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(arrays), len(arrays) + 1)
    documents = np.arange(len(arrays) + 1)
    (facts.folder / f"{prefix}.bin").write_bytes(b"".join(array.tobytes() for array in arrays))
    (facts.folder / f"{prefix}.idx").write_bytes(
        header + lengths.astype("<i4").tobytes() + offsets.astype("<i8").tobytes() + documents.astype("<i8").tobytes()
    )


@facts.add
def number_of_lines():
    return CrudeJsonlDatasetFactory.prepare_dataset(EPath(facts.folder / "lines.jsonl"))


@facts.add
def lines_of_one_pass():
    return texts(build(facts.folder / "lines.jsonl", Encoder(), repeat=False))


@facts.add
def lines_of_a_range():
    part = "    blend_epochized:\n      - {path: lines.jsonl, repetitions: 1, subset: {range: [0%, 50%]}}\n"
    return texts(build(write_mix("half.yaml", part), Encoder(), repeat=False))


@facts.add
def saved_state_of_lines_restores():
    dataset = build(facts.folder / "lines.jsonl", Encoder())
    loader = get_savable_loader(dataset)
    batches = iter(loader)
    next(batches)
    state = loader.save_state_rank()
    expected = [next(batches).text for _ in range(5)]
    other = get_savable_loader(build(facts.folder / "lines.jsonl", Encoder()))
    other.restore_state_rank(state)
    batches = iter(other)
    return [next(batches).text for _ in range(5)] == expected


@facts.add
def token_files_in_a_blend():
    write_tokens("web#1_text_document", [[number, number] for number in range(30)])
    write_tokens("books_text_document", [[1000 + number] for number in range(30)])
    part = (
        "    blend:\n"
        "      - {path: 'web#1_text_document', weight: 0.75}\n"
        "      - {path: books_text_document.bin, weight: 0.25}\n"
    )
    batches = iter(get_loader(build(write_mix("tokens.yaml", part), TokenEncoder())))
    found = [text for _ in range(100) for text in next(batches).text]
    return round(sum(len(text.split()) == 2 for text in found) / len(found), 1)


facts.report()
