"""Utilities that scripts use next to the loaders: paths, generators, hooks, errors, documents, shards and clips."""

from __future__ import annotations

import io
import os
import pickle
import random
import wave

import numpy as np
import torch
from facts import Facts, digest
from megatron.energon import WorkerConfig
from megatron.energon.av import AVDecoder
from megatron.energon.dataset_config import load_config
from megatron.energon.epathlib import EPath
from megatron.energon.errors import ErrorContext, FatalSampleError
from megatron.energon.flavors.jsonl.ijsonl import IJsonlIndexReader, IJsonlIndexWriter
from megatron.energon.flavors.webdataset import BaseWebdatasetFactory
from megatron.energon.flavors.webdataset.metadata import WebdatasetMeta, get_info_shard_files
from megatron.energon.flavors.webdataset.prepare import WebdatasetPreparator
from megatron.energon.flavors.webdataset.structs import ShardInfo, WebdatasetInfo
from megatron.energon.fork_hook import ForkMixin, after_in_child_fork_hook
from megatron.energon.rng import SystemRng, WorkerRng

DIFFERS = {
    "audio_across_blocks": "A clip near the end of a block of the file may have the samples of a further block.",
    "timestamps_of_clips": "Their times are the requested ones, not the times of the samples.",
    "worker_generator": "`worker_seed()` is another number, and with it the numbers that `WorkerRng` draws",
}

facts = Facts()
root = EPath(str(facts.folder))


@facts.add
def paths():
    (root / "notes/deep/a.txt").write_text("abc")
    (root / "notes/b.txt").write_bytes(b"de")
    (root / "notes/b.txt").copy(root / "copies/c.txt")
    found = [path.relative_to(root) for path in (root / "notes" / ".." / "notes").walk()]
    status = (root / "notes/b.txt").stat()
    same = pickle.loads(pickle.dumps(root / "notes"))
    return [
        sorted(found),
        sorted(path.name for path in root.glob("notes/**/*.txt")),
        sorted(path.name for path in (root / "notes").glob("../copies/*")),
        [status.content_length, status.type, (root / "notes").stat().type],
        [
            same == root / "notes",
            same.name,
            same.display_name,
            same.parent == root,
            (root / "a.tar").with_suffix(".x").name,
        ],
        [(root / "notes/b.txt").is_file(), (root / "nothing").is_dir(), (root / "notes/b.txt").size()],
    ]


@facts.add
def global_generators():
    SystemRng.seed_args("run", 3)
    state = SystemRng.save_state()
    first = [random.random(), float(np.random.rand()), float(torch.rand(1))]  # noqa: NPY002
    SystemRng.restore_state(state)
    return first, first == [random.random(), float(np.random.rand()), float(torch.rand(1))]  # noqa: NPY002


@facts.add
def worker_generator():
    rng = WorkerRng(WorkerConfig(rank=0, world_size=1, num_workers=0))
    return [rng.randbelow(1000) for _ in range(5)]


@facts.add
def restored_worker_generator():
    rng = WorkerRng(WorkerConfig(rank=0, world_size=1, num_workers=0))
    state = rng.save_state()
    first = [rng.randbelow(1000), rng.choice([1, 2, 3]), rng.shuffle([1, 2, 3])]
    rng.restore_state(state)
    return first == [rng.randbelow(1000), rng.choice([1, 2, 3]), rng.shuffle([1, 2, 3])]


@facts.add
def fork_hooks():
    calls = []

    class Reader(ForkMixin):
        def __before_fork__(self):
            calls.append("before")

        def __after_in_child_fork__(self):
            calls.append("child")

        def __after_in_parent_fork__(self):
            calls.append("parent")

    def function():
        calls.append("function")

    reader = Reader()
    after_in_child_fork_hook(function)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, " ".join(calls).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return [os.read(read, 1000).decode(), calls, type(reader).__name__]


@facts.add
def errors_in_a_row():
    seen = []
    context = ErrorContext(name="step", handler=lambda error, sample, sources: seen.append(str(error)), tolerance=3)
    try:
        for number in range(10):
            with context.handle_errors({"__key__": str(number)}):
                if number != 1:
                    raise ValueError(f"sample {number}")
    except FatalSampleError:
        return seen
    return "no error"


@facts.add
def documents():
    return [
        load_config(root / "captions/.nv-meta/.info.json", default_type=WebdatasetInfo).shard_counts,
        load_config({}, default_type=WebdatasetInfo, default_kwargs={"shard_counts": {"a": 1}}).shard_counts,
    ]


@facts.add
def jsonl_index():
    path = root / "three.jsonl"
    path.write_text('{"a": 1}\n{"a": 22}\n{"a": 333}\n')
    with IJsonlIndexWriter(path) as writer:
        for offset in (0, 9, 19, 30):
            writer.append(offset)
    with IJsonlIndexReader(path) as reader:
        return [list(reader), len(reader), IJsonlIndexReader.count_samples(path), IJsonlIndexReader.size(path)]


@facts.add
def shards():
    meta = WebdatasetMeta.from_config(root / "captions", split_part="val")
    first = meta.shards[0]
    again = ShardInfo(name=first.name, path=root / "captions" / first.name, count=20)
    return [[shard.count for shard in meta.shards], get_info_shard_files(root / "captions"), first == again]


@facts.add
def preparation():
    parts = WebdatasetPreparator.prepare_dataset(
        root / "crude",
        ["train/shard_{000..004}.tar"],
        split_parts_ratio=[("train", 3), ("val", 1), ("test", 1)],
        split_config="ratio.yaml",
        workers=2,
        progress_fn=lambda steps, total: steps,
    )
    files = (root / "crude/.nv-meta/ratio.yaml").read_text()
    content = next(iter(BaseWebdatasetFactory.iter_dataset_content(root / "crude/train/shard_000.tar", ("txt",))))
    return sorted(parts), files, sorted(content), content["txt"].decode()


def sound(rate: int, samples: int) -> AVDecoder:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.arange(samples) % 30000).astype("<i2").tobytes())
    return AVDecoder(io.BytesIO(buffer.getvalue()))


@facts.add
def audio_clips():
    """Clips of a WAV file, each requested alone."""
    ranges = [(0, 0.5), (0.145, 0.3), (0.19805, 0.375), (1.905, 2.043), (0.314, 0.55734), (1, 1), (0.5, 99)]
    clips = [sound(44100, 100_001).get_audio_clips([part])[0][0] for part in ranges]
    return [digest(clip) for clip in clips]


@facts.add
def audio_of_equal_length():
    clips, _ = sound(44100, 100_001).get_audio_clips([(0.2, 0.3), (0.20885, 0.30885), (0.734, 0.834)])
    return [clip.shape[1] for clip in clips]


@facts.add
def audio_across_blocks():
    return sound(44100, 100_001).get_audio_clips([(0.734, 0.75994)])[0][0].shape[1]


@facts.add
def timestamps_of_clips():
    return sound(16000, 50_000).get_audio_clips([(0.25, 0.30001)])[1]


facts.report()
