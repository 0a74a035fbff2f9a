"""Files of datasets: shards that one of the programs refuses, splits, keys, and code of a dataset."""

import gzip
import io
import json
import subprocess
import sys
import tarfile
import warnings
from functools import cache

from click.testing import CliRunner
from facts import Facts
from megatron.energon import (
    DefaultTaskEncoder,
    FileStoreCachePool,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    load_dataset,
)
from megatron.energon.cli.main import main
from megatron.energon.dataset_config import load_config
from megatron.energon.epathlib import EPath
from megatron.energon.flavors.webdataset.metadata import WebdatasetMeta

DIFFERS = {
    "key_format_in_a_document": "`key_format: key` (megatron-energon refuses this line)",
    "compressed_shards": "Compressed shards (`.tgz`, `.tar.gz`) are skipped here",
    "keys_that_occur_twice": "Keys that occur twice are a warning here, and `energon prepare` ends with 0; there",
    "split_of_few_shards": "is split 1/1/1 here, so that no requested part is empty, and 2/0/1 there.",
    "code_of_a_dataset": (
        "run only with `trust_code=True`, or `ENERGON_TRUST_CODE=1` in the environment.",
        "They are refused until you",
        "| code in a dataset (`sample_loader.py`) | runs with `trust_code=True` or `ENERGON_TRUST_CODE=1` | runs |",
    ),
    "function_in_a_document": "| `load_config` of a file that names a function, or a class of a module that is not",
    "folder_of_a_cache": "`cache_path` of their lazies is None, and `cache_dir` the folder whose disk is used",
    "unused_argument": "An argument without effect is reported by a warning here.",
    "unknown_argument": "Any other unknown name is a `TypeError` that suggests the nearest existing name.",
    "log_of_a_sample_that_fails": "skipped, with one line in the log, and the traceback of the first;",
}
PROVES = {
    "deprecated_argument": "| `image_decode`, `av_decode`, `video_decode_audio`, `guess_content`, `auto_decode`,",
    "keys_that_occur_twice_with_compat": "With `--compat` it ends with 1 here, too",
    "names_of_commands": "- the commands `energon prepare`, `prepare-media`, `info`, `lint`, `preview`,",
    "parallel_shard_iters": "| `parallel_shard_iters` | `get_train_dataset` |",
    "sample_that_fails": "| a sample that fails | skipped,",
    "references_of_a_mix": "including `dataset.yaml` and metadatasets.",
}

facts = Facts()
COMPAT = ["--compat"] if DefaultTaskEncoder.__module__.startswith("loader") else []  # an option that only one has


def energon(*arguments):
    """Return the exit status of a command; a process for each would take seconds to import torch."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments]).exit_code


def write_shards(name, keys, *, suffix="tar"):
    folder = facts.folder / name
    folder.mkdir()
    for number, of_shard in enumerate(keys):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for key in of_shard:
                info = tarfile.TarInfo(f"{key}.txt")
                info.size = len(key)
                tar.addfile(info, io.BytesIO(key.encode()))
        data = buffer.getvalue() if suffix == "tar" else gzip.compress(buffer.getvalue())
        (folder / f"shard_{number}.{suffix}").write_bytes(data)
    return folder


def prepare(folder, *options):
    return energon("prepare", "--non-interactive", "--split-ratio", "1,0,0", *options, folder)


def load(path, **options):
    return get_train_dataset(
        path,
        **{"batch_size": 2, "shuffle_buffer_size": None, "max_samples_per_sequence": None} | options,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
    )


@facts.add
def key_format_in_a_document():
    meta = facts.folder / "texts/.nv-meta"
    (meta / "bare.yaml").write_text((meta / "dataset.yaml").read_text() + "key_format: key\n")
    sample = next(iter(get_loader(load(facts.folder / "texts", dataset_config="bare.yaml"))))
    return sample.__key__[0].startswith("train_")


@facts.add
def compressed_shards():
    folder = write_shards("compressed", [["a", "b"], ["c"]], suffix="tgz")
    prepare(folder)
    info = folder / ".nv-meta/.info.json"
    return sum(json.loads(info.read_text())["shard_counts"].values()) if info.exists() else 0


@facts.add
def keys_that_occur_twice():
    return prepare(write_shards("twice", [["a", "b"], ["b"]]))


@facts.add
def keys_that_occur_twice_with_compat():
    return prepare(write_shards("twice_compat", [["a", "b"], ["b"]]), *COMPAT)


@facts.add
def split_of_few_shards():
    folder = write_shards("few", [["a"], ["b"], ["c"]])
    energon("prepare", "--non-interactive", "--split-ratio", "8,1,1", folder)
    counts = []
    for part in ("train", "val", "test"):
        try:
            counts.append(len(WebdatasetMeta.from_config(EPath(folder), split_part=part).split_part_files))
        except Exception:  # noqa: BLE001 - an empty part is an error
            counts.append(0)
    return counts


@facts.add
def names_of_commands():
    names = ("prepare", "prepare-media", "info", "lint", "preview", "checkpoint", "mount")
    return [energon(name, "--help") for name in names]


@facts.add
def code_of_a_dataset():
    meta = facts.folder / "crude/.nv-meta"
    (meta / "sample_loader.py").write_text(
        "def sample_loader(raw): return {'text': raw['txt']}\ndef part_filter(part): return part == 'txt'\n"
    )
    (meta / "coded.yaml").write_text(
        "__module__: megatron.energon\n__class__: StandardWebdatasetFactory\n"
        "sample_type: {__module__: megatron.energon, __class__: TextSample}\n"
        "sample_loader: sample_loader.py:sample_loader\npart_filter: sample_loader.py:part_filter\n"
    )
    try:
        return next(iter(get_loader(load(facts.folder / "crude", dataset_config="coded.yaml")))).text[0][:5]
    except Exception as error:  # noqa: BLE001 - the class is the fact
        return type(error).__name__


@facts.add
def function_in_a_document():
    path = facts.folder / "call.yaml"
    path.write_text("__module__: os.path\n__function__: basename\np: /a/b\n")
    try:
        return load_config(EPath(path), default_type=str)
    except Exception as error:  # noqa: BLE001 - the class is the fact
        return type(error).__name__


@facts.add
def folder_of_a_cache():
    pool = FileStoreCachePool(parent_cache_dir=facts.folder)
    return [pool.cache_dir == facts.folder, len(list(facts.folder.glob("cache_*")))]


@facts.add
def parallel_shard_iters():
    return len(next(iter(get_loader(load(facts.folder / "texts", parallel_shard_iters=4)))).text)


@facts.add
def deprecated_argument():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        batch = next(iter(get_loader(load(facts.folder / "captions", image_decode="pil"))))
    return [type(batch.image[0]).__name__, any("deprecated" in str(one.message) for one in caught)]


@facts.add
def unused_argument():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(facts.folder / "texts", field_map={"text": "json"})
    return any("field_map" in str(one.message) for one in caught)


@facts.add
def unknown_argument():
    try:
        load(facts.folder / "texts", shuffle_buffer_sise=3)
    except TypeError as error:
        return "shuffle_buffer_size" in str(error).replace("shuffle_buffer_sise", "")


FAILED = """
import sys
from megatron.energon import *
class Encoder(DefaultTaskEncoder):
    @stateless
    def encode_sample(self, sample):
        if sample.text.startswith("val 33"): raise ValueError("a three")
        return sample
config = WorkerConfig(rank=0, world_size=1, num_workers=0)
dataset = get_val_dataset(sys.argv[1], batch_size=1, task_encoder=Encoder(), worker_config=config)
print(sum(1 for _ in get_loader(dataset)))
"""


@cache
def run_with_failures():
    command = [sys.executable, "-c", FAILED, str(facts.folder / "texts")]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)


@facts.add
def sample_that_fails():
    return int(run_with_failures().stdout.split()[-1])


@facts.add
def log_of_a_sample_that_fails():
    """The lines of the standard error that name the place of one failed sample."""
    return run_with_failures().stderr.count("val_00333")


@facts.add
def references_of_a_mix():
    return [reference.subflavors for reference in load_dataset(facts.folder / "mix.yaml").traverse(split_part="train")]


facts.report()
