"""Names that public code imports from submodules: commands, paths, writers of indexes, pools, states and buffers."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pickle
import sqlite3

import torch
import torch.distributed
from click.testing import CliRunner
from facts import Facts, one_process
from megatron.energon import Cooker, SavableDataset, WorkerConfig, get_loader, get_savable_loader, get_val_dataset
from megatron.energon.cli.main import prepare_media_command
from megatron.energon.epathlib import DEFAULT_PROFILE_NAME, EPath, epath
from megatron.energon.flavors.webdataset.aggregator_pool import AggregatorPool, BaseAggregator
from megatron.energon.flavors.webdataset.indexing import DuplicateSampleKeyError, SqliteIndexWriter
from megatron.energon.flavors.webdataset.prepare import IndexMediaMetadata, IndexSample, IndexSamplePart
from megatron.energon.flavors.webdataset.sample_loader import SliceState
from megatron.energon.metadataset.metadataset_v2 import AuxFilesystemReference
from megatron.energon.savable_loader import (
    SavableCheckpoint,
    SavableDataLoaderState,
    SavableDatasetCheckpoint,
    SavableDatasetState,
)
from megatron.energon.state import FlexState
from megatron.energon.task_encoder import DefaultTaskEncoder
from megatron.energon.tools.analyze_debug import command as analyze_debug
from megatron.energon.tools.checkpoint import command_redist
from megatron.energon.wrappers.base import BaseWrapperDataset
from megatron.energon.wrappers.buffer import SavableSampleBuffer

facts = Facts()
root = EPath(str(facts.folder))

PROVES = {"states_are_plain_dataclasses": "can be imported, for lists of safe globals and annotations."}


@facts.add
def commands():
    return [
        CliRunner().invoke(command, ["--help"]).exit_code
        for command in (prepare_media_command, analyze_debug, command_redist)
    ]


@facts.add
def name_of_the_profile_of_this_machine():
    return DEFAULT_PROFILE_NAME, epath.DEFAULT_PROFILE_NAME


@facts.add
def folder_of_versions():
    (root / "versions/coco/2/a.txt").write_text("cats")
    before = epath.NVDATASET_CACHE_DIR
    epath.NVDATASET_CACHE_DIR = root / "versions"
    text = EPath("dss://coco@2/a.txt").read_text()
    epath.NVDATASET_CACHE_DIR = before
    return before, text


@facts.add
def auxiliary_folder():
    (root / "aux_files/a.txt").write_text("cats")
    reference = AuxFilesystemReference(fs_path="aux_files")
    before = reference.fs_path
    reference.post_initialize(root / "mix.yaml")
    return before, reference.fs_path == root / "aux_files", reference.get_file_store()["a.txt"][0].decode()


def row(key, number):
    return IndexSample(tar_file_id=0, sample_key=key, sample_index=number, byte_offset=512 * number, byte_size=512)


def rows_of(path, table, order):
    database = sqlite3.connect(str(path))
    found = database.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()
    database.close()
    return found


@facts.add
def index_of_samples_and_parts():
    path = root / "index.sqlite"
    part = IndexSamplePart(tar_file_id=0, sample_index=1, part_name="txt", content_byte_offset=512, content_byte_size=3)
    with SqliteIndexWriter(path) as writer:
        writer.append_samples([row("a", 0), row("b", 1)])
        writer.append_samples([])
        writer.append_parts([part])
    return rows_of(path, "samples", "sample_index"), rows_of(path, "sample_parts", "sample_index")


@facts.add
def keys_that_are_repeated():
    path, errors = root / "repeated.sqlite", []
    with SqliteIndexWriter(path) as writer:
        writer.append_samples([row("a", 0)])
        for rows in ([row("b", 1), row("a", 2)], [row("c", 3), row("d", 4), row("d", 5)]):
            try:
                writer.append_samples(rows)
            except DuplicateSampleKeyError as error:
                errors.append([error.sample_key, isinstance(error, RuntimeError), repr(error.sample_key) in str(error)])
    return errors, rows_of(path, "samples", "sample_index")


@facts.add
def index_of_media():
    path = root / "media.sqlite"
    writer = SqliteIndexWriter(path, enable_sample_tables=False, enable_media_metadata=True)
    writer.append_media_metadata_batch(
        [IndexMediaMetadata(entry_key="a.jpg", metadata_type="image", metadata_json="{}")]
    )
    writer.append_media_filter(strategy="extension", patterns=None)
    writer.close()
    return rows_of(path, "media_metadata", "entry_key"), [found[1:3] for found in rows_of(path, "media_filters", 1)]


class Collector(BaseAggregator):
    def __init__(self):
        self.calls = []

    def on_start(self, aggregator_pool):
        self.calls.append("start")

    def on_item(self, items, aggregator_pool):
        self.calls.append(list(items))

    def on_finish(self, aggregator_pool):
        self.calls.append("finish")

    def get_final_result_data(self):
        return self.calls


@facts.add
def workers_and_an_aggregator():
    results = []
    for workers, batch_size in ((3, 1), (1, 2)):
        pool = AggregatorPool(
            workers, lambda task: ((task, item) for item in range(task)), Collector(), batch_size=batch_size
        )
        for task in (3, 1, 4, 0):
            pool.submit_task(task)
        results.append(pool.process())
    return results


@facts.add
def fields_of_states():
    kinds = (SavableDataLoaderState, SavableDatasetCheckpoint, SavableDatasetState, SavableCheckpoint, SliceState)
    return [[field.name for field in dataclasses.fields(kind)] for kind in kinds]


@facts.add
def states_are_plain_dataclasses():
    state = SavableDataLoaderState(
        worker_states=[SavableDatasetCheckpoint(state=None, offset=3), FlexState(a=1)],
        next_worker_id=1,
        micro_batch_size=None,
    )
    torch.serialization.add_safe_globals([SavableDataLoaderState, SavableDatasetCheckpoint, FlexState, SliceState])
    return pickle.loads(pickle.dumps(state)) == state, SliceState(index=1, current=2).current


class Window(BaseWrapperDataset):
    """Yields the oldest of five samples."""

    _savable_fields = ("_window",)

    def __init__(self, dataset, worker_config):
        super().__init__(dataset, worker_config=worker_config)
        self._window = SavableSampleBuffer(dataset, worker_config=worker_config)

    def reset_state_own(self):
        self._window.clear()

    def len_worker(self, worker_idx=None):
        return self.dataset.len_worker(worker_idx)

    def __iter__(self):
        self._window.worker_start()
        for _ in self._window.append_iter():
            if len(self._window.buffer) == 5:
                yield self._window.pop(0)
        while self._window.buffer:
            yield self._window.pop(0)

    def config(self):
        return {"type": "Window"}


class WithWindow(DefaultTaskEncoder):
    def build_val_datasets(self, *, datasets, worker_config, **options):
        inner = super().build_val_datasets(
            datasets=datasets, worker_config=worker_config, **{**options, "batch_size": None}
        )
        return Window(inner, worker_config)


def window_loader():
    dataset = get_val_dataset(root / "texts", batch_size=None, worker_config=one_process(), task_encoder=WithWindow())
    return get_savable_loader(dataset)


@facts.add
def buffer_in_a_restored_run():
    samples = iter(window_loader())
    loader = window_loader()
    iterator = iter(loader)
    first = [next(iterator).text for _ in range(7)]
    again = window_loader()
    again.restore_state_rank(loader.save_state_rank())
    rest = [one.text for one in again]
    return first + rest == [one.text for one in samples], len(rest)


class Numbers(SavableDataset):
    def __init__(self):
        super().__init__(worker_config=one_process())

    def __iter__(self):
        for number in range(6):
            yield self.restore_sample(("Numbers", number))

    def reset_state_own(self):
        pass

    def len_worker(self, worker_idx=None):
        return 6

    def worker_has_samples(self):
        return True

    def can_restore_sample(self):
        return True

    def restore_sample(self, restore_key):
        return {"__key__": str(restore_key[1]), "__restore_key__": restore_key, "number": restore_key[1]}

    def config(self):
        return {}


@facts.add
def buffer_is_like_a_list():
    dataset = Numbers()
    samples, steps = list(dataset), []
    buffer = SavableSampleBuffer(dataset, worker_config=one_process())
    buffer.append(samples[0])
    buffer.extend(samples[1:4])
    buffer.extend([samples[4]], [("Other", 4)])
    steps.append([[one["number"] for one in buffer], buffer.restore_key()])
    buffer[0] = samples[5]
    buffer[1:3] = [samples[3], samples[3]]
    del buffer[3]
    steps.append([buffer[0]["number"], [one["number"] for one in buffer[1:]], buffer.restore_key()])
    steps.append([buffer.pop(1)["number"], buffer.restore_key()])
    again = SavableSampleBuffer(dataset, worker_config=one_process())
    again.restore_state(buffer.save_state())
    again.worker_start()
    steps.append([one["number"] for one in again.buffer])
    flushed, keys = again.flush()
    steps.append([[one["number"] for one in flushed], keys, len(again.buffer)])
    return steps


@facts.add
def classes_that_take_types():
    """The number of types with which the classes are written in type aliases."""
    classes = {
        "cache.base": "FileStore:1 Lazy:1 MockLazy:1 PrimaryFileStore:1",
        "flavors": "CrudeSample:1",
        "flavors.base_dataset": "BaseCoreDatasetFactory:1 SavableDataset:1 SavableDataset:2",
        "flavors.webdataset": (
            "BaseWebdatasetFactory:1 DefaultDecoderWebdatasetFactory:1 DefaultGenericWebdatasetFactory:1 "
            "JoinedWebdatasetFactory:1 StandardWebdatasetFactory:1"
        ),
        "savable_loader": "BasicDataLoader:1 SavableDataLoader:1",
        "task_encoder": "AugmentTaskEncoder:4 DefaultTaskEncoder:4 TaskEncoder:4 Cooker:1",
        "wrappers": (
            "BatchDataset:2 BlendDataset:1 ConcatDataset:1 EpochizeDataset:1 FilterDataset:1 GroupBatchDataset:2 "
            "IterMapDataset:2 LimitDataset:1 MapDataset:2 MixBatchDataset:1 PackingDataset:2 RepeatDataset:1 "
            "ShuffleBufferDataset:1"
        ),
        "wrappers.base": "BaseWrapperDataset:1 BaseWrapperDataset:2",
    }
    refused = []
    for module, names in classes.items():
        for name, _, count in (word.partition(":") for word in names.split()):
            kind = getattr(importlib.import_module(f"megatron.energon.{module}"), name)
            try:
                kind[(int,) * int(count) if int(count) > 1 else int]
            except TypeError:
                refused.append(name)

    class Own(BaseWrapperDataset[int, str]):
        pass

    return refused, issubclass(Own, SavableDataset), Cooker[int] is not None


@facts.add
def description_of_a_loader():
    dataset = get_val_dataset(root / "texts", batch_size=2, worker_config=one_process())
    return [[*loader.config()] for loader in (get_loader(dataset), get_savable_loader(dataset))], type(
        get_loader(dataset).config()
    ).__name__


@facts.add
def size_of_the_group_in_the_description_of_a_run():
    without = one_process().config()["data_parallel_group"]
    torch.distributed.init_process_group("gloo", init_method=f"file://{root}/group{os.getpid()}", rank=0, world_size=1)
    group = torch.distributed.group.WORLD
    described = WorkerConfig(rank=0, world_size=1, num_workers=0, data_parallel_group=group).config()
    torch.distributed.destroy_process_group()
    return without, described["data_parallel_group"]


facts.report()
