"""Behaviour that code for megatron-energon relies on: callbacks, watchdogs, caches, restores, logs and versions."""

from __future__ import annotations

import gc
import io
import json
import logging
import multiprocessing
import os
import re
import tarfile
import time
import warnings
from pathlib import Path

import megatron.energon
import torch
import yaml
from click.testing import CliRunner
from facts import Facts, one_process
from megatron.energon import (
    CaptioningSample,
    Cooker,
    DefaultTaskEncoder,
    FileStoreCachePool,
    SampleDecoder,
    SystemFileStore,
    WorkerConfig,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    load_dataset,
    stateless,
)
from megatron.energon.epathlib import EPath
from megatron.energon.flavors.webdataset.prepare import WebdatasetPreparator
from megatron.energon.fork_hook import WeakCallbacks
from megatron.energon.sample_utils import format_sample_detailed
from megatron.energon.tools.analyze_debug import command as analyze_debug
from megatron.energon.wrappers.watchdog_dataset import WatchdogDataset
from PIL import Image

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
facts = Facts()
root = facts.folder

PROVES = {
    "restore_with_other_options_of_the_decoder": "the same samples come, and a warning names the difference.",
    "versions": "by which code chooses between versions",
    "workers_are_forked_whatever_the_process_has_set": "fork their workers, whatever start method the process has set",
}
DIFFERS = {
    "hook_that_expects_bare_keys": "`__key__` is `<shard>/<key>` here, the bare key there.",
}


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


class Counter:
    def __init__(self):
        self.calls = 0

    def call(self):
        self.calls += 1


@facts.add
def callback_that_is_added_twice():
    callbacks, one, other = WeakCallbacks(), Counter(), Counter()
    for counter in (one, one, other):
        callbacks.add_hook(counter.call)
    function_calls = []

    def function():
        function_calls.append(1)

    callbacks.add_hook(function)
    callbacks.add_hook(function)
    callbacks.run()
    del other
    gc.collect()
    callbacks.run()
    return one.calls, len(function_calls)


class Watched(WatchdogDataset):
    triggered: list[str] = []

    def _watchdog_trigger(self):
        Watched.triggered.append(type(self).__name__)
        super()._watchdog_trigger()


class Slow(DefaultTaskEncoder):
    samples = 0

    @stateless
    def encode_sample(self, sample):
        Slow.samples += 1
        if Slow.samples == 2:
            wait_until(lambda: Watched.triggered)
        return sample

    def build_val_datasets(self, *, datasets, worker_config, **options):
        inner = super().build_val_datasets(datasets=datasets, worker_config=worker_config, **options)
        return Watched(inner, worker_config=worker_config, timeout_seconds=0.3)


@facts.add
def trigger_of_a_watchdog():
    dataset = get_val_dataset(root / "texts", batch_size=1, worker_config=one_process(), task_encoder=Slow())
    batches = iter(get_loader(dataset))
    return len([next(batches) for _ in range(3)]), Watched.triggered


def store_of(count):
    folder = root / "blobs"
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{number}.bin").write_bytes(bytes([number]) * 30_000)
    return SystemFileStore(EPath(str(folder)))


@facts.add
def limits_of_a_cache_pool():
    """Two of six files lie on the disk while ten lazies wait, of which four are second ones of a file."""
    store = store_of(6)
    pool = FileStoreCachePool(parent_cache_dir=Path(root), num_workers=1)
    pool.max_cache_size, pool.max_cache_count = 75_000, 2
    lazies = [pool.get_lazy(store, f"{number % 6}.bin") for number in range(10)]
    steps = [wait_until(lambda: pool.current_cache_count == 2), pool.current_cache_size]
    for number, lazy in enumerate(lazies):
        steps.append(lazy.get()[0] == number % 6)
        if number < 8:
            steps.append(wait_until(lambda: pool.current_cache_count == 2 and pool.current_cache_size == 60_000))
    steps += [wait_until(lambda: pool.current_cache_count == 0), pool.current_cache_size]
    pool.close()
    return steps


class Captions(DefaultTaskEncoder):
    decoder = SampleDecoder(image_decode="pilrgb")

    @stateless
    def encode_sample(self, sample):
        return {"__key__": sample.__key__, "__restore_key__": sample.__restore_key__, "caption": sample.caption}

    def batch(self, samples):
        return samples


class OtherDecoder(Captions):
    decoder = SampleDecoder()


@facts.add
def restore_with_other_options_of_the_decoder():
    def loader_of(encoder):
        return get_savable_loader(
            get_train_dataset(
                root / "captions",
                batch_size=2,
                shuffle_buffer_size=10,
                max_samples_per_sequence=10,
                worker_config=one_process(),
                task_encoder=encoder,
            )
        )

    def captions_of(batches, count):
        return [[one["caption"] for one in next(batches)] for _ in range(count)]

    loader = loader_of(Captions())
    batches = iter(loader)
    captions_of(batches, 3)
    state = loader.save_state_rank()
    again = loader_of(OtherDecoder())
    again.restore_state_rank(state)
    return captions_of(iter(again), 5) == captions_of(batches, 5)


@facts.add
def versions():
    return megatron.energon.__version__


@facts.add
def printed_sample_is_yaml():
    sample = CaptioningSample(
        __key__="a",
        __restore_key__=("b", 1),
        __subflavors__={"c": 1.5},
        image=torch.zeros(3, 2, 2),
        caption="two\nlines: ",
    )
    values = {"none": None, "yes": True, "list": [1, "2", {"a": []}], "many": list(range(40)), "bytes": b"abc", 3: "x"}
    values |= {"tensor": torch.arange(3), "array": torch.zeros(2, 2).numpy(), "inner": sample}
    found = yaml.safe_load(format_sample_detailed(values))
    image = found["inner"]["CaptioningSample"].pop("image")
    found["inner"]["CaptioningSample"].pop("__sources__")
    kinds = [type(text).__name__ for text in (image, found.pop("tensor"), found.pop("array"))]
    found["many"] = found["many"][:10]
    short = yaml.safe_load(format_sample_detailed("text")), format_sample_detailed({"a": [1]}, "  ")
    return [[str(key), value] for key, value in found.items()], kinds, short


@facts.add
def workers_are_forked_whatever_the_process_has_set():
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    try:
        seen = []
        for build in (get_loader, get_savable_loader):

            class Local(DefaultTaskEncoder):
                """A class that does not pickle."""

                @stateless
                def encode_sample(self, sample):
                    sample.text = str(os.getpid())
                    return sample

            config = WorkerConfig(rank=0, world_size=1, num_workers=2)
            loader = build(get_val_dataset(root / "texts", batch_size=50, worker_config=config, task_encoder=Local()))
            seen.append(len({text for batch in loader for text in batch.text} - {str(os.getpid())}))
            seen.append(loader.multiprocessing_context.get_start_method())
        return seen
    finally:
        multiprocessing.set_start_method(before, force=True)


def write_own_dataset(name, files, document):
    folder = root / name
    folder.mkdir()
    with tarfile.open(folder / "s_0.tar", "w") as shard:
        for number in range(12):
            for part, content in files.items():
                member = tarfile.TarInfo(f"k{number}.{part}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))
    WebdatasetPreparator.prepare_dataset(
        EPath(str(folder)),
        ["s_0.tar"],
        split_parts_ratio=[("train", 1)],
        split_config="split.yaml",
        workers=1,
        progress_fn=lambda steps, total: steps,
    )
    (folder / ".nv-meta/dataset.yaml").write_text(yaml.safe_dump(document))
    return folder


@facts.add
def subflavors_of_factories():
    document = {
        "sample_type": {"__module__": "megatron.energon", "__class__": "TextSample"},
        "field_map": {"text": "txt"},
        "subflavors": {"own": 1, "kind": "document"},
    }
    folder = write_own_dataset("labels", {"txt": b"a"}, document)
    part = {"path": "labels", "subflavors": {"kind": "mix", "more": 2}}
    mix = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": {"blend": [part]}}}
    (root / "labels.yaml").write_text(yaml.safe_dump(mix))
    found = []
    for options in ({}, {"subflavors": {"kind": "call"}}):
        loaded = load_dataset(EPath(str(folder))).get_datasets(
            training=True, split_part="train", worker_config=one_process(), **options
        )
        found += [one.dataset.subflavors for one in loaded.datasets]
    loaded = load_dataset(EPath(str(root / "labels.yaml"))).get_datasets(
        training=True, split_part="train", worker_config=one_process(), subflavors={"called": 3}
    )
    return found + [one.dataset.subflavors for one in loaded.datasets]


@facts.add
def hook_that_expects_bare_keys():
    folder = write_own_dataset(
        "pairs", {"txt": b"a", "json": b"{}"}, {"__module__": "megatron.energon", "__class__": "CrudeWebdataset"}
    )

    class Pairs(DefaultTaskEncoder):
        decoder = SampleDecoder()

        def by_name(sample, **aux):  # noqa: N805 - a cooker
            members = {f"k{number}.txt" for number in range(12)}
            members.remove(f"{sample['__key__']}.txt")
            return sample

        cookers = [Cooker(by_name)]

    dataset = get_train_dataset(
        folder,
        batch_size=1,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        worker_config=one_process(),
        task_encoder=Pairs(),
    )
    try:
        next(iter(get_loader(dataset)))
    except Exception as error:  # noqa: BLE001 - what is compared
        return "ENERGON_KEY_FORMAT=key" in str(error)
    return "found"


@facts.add
def lines_of_the_debug_log_and_their_analysis():
    folder = root / "debug"
    config = one_process(worker_debug_path=str(folder / "worker_{worker_id}.jsonl"), worker_log_level=1)
    loader = get_loader(get_val_dataset(root / "texts", batch_size=100, worker_config=config))
    for _ in range(2):
        for _ in loader:
            pass
    del loader
    lines = [json.loads(line) for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]
    yields = [line for line in lines if line["t"].endswith("Loader.yield")]
    numbers = [[line["idx"], line["iter_idx"], line["global_idx"]] for line in yields]
    picture = root / "heatmap.png"
    options = ["--heatmap-path", str(picture), "--include-modality", "val"]
    result = CliRunner().invoke(analyze_debug, [str(folder), *options], input="0\n")
    printed = re.findall(r"Analyzing \d+ log|Found \d+ unique sample keys, \d+ step", result.output)
    return numbers, result.exit_code, printed, Image.open(picture).format


facts.report()
