"""Names that public code imports: their errors, warnings and messages, which `make compat` cannot compare."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import sqlite3
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from megatron.energon import get_loader
from megatron.energon.flavors.webdataset.aggregator_pool import AggregatorPool, BaseAggregator
from megatron.energon.flavors.webdataset.indexing import (
    DuplicateSampleKeyError,
    IndexSample,
    IndexSamplePart,
    SqliteIndexWriter,
)
from megatron.energon.metadataset.metadataset_v2 import AuxFilesystemReference
from megatron.energon.wrappers.buffer import SavableSampleBuffer

import loader
from loader import (
    ConfigError,
    DefaultTaskEncoder,
    SampleDecoder,
    SavableDataset,
    StateError,
    StorageError,
    WorkerConfig,
    WorkerError,
    get_train_dataset,
    random_access,
)
from loader.training.states.mixes.differences import with_decoders_of
from tests.cli.make_dataset import write_captions
from tests.e2e.dataset_tree import prepare

CONFIG = "sample_type: {__module__: loader, __class__: CaptioningSample}\nfield_map: {image: jpg, caption: txt}\n"


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_captions(tmp_path_factory.mktemp("names") / "captions", shards=2, samples=4)
    prepare(folder, files={"dataset.yaml": CONFIG})
    return folder


class Decodes(DefaultTaskEncoder[Any, Any, Any, Any]):
    def __init__(self, kind: type[SampleDecoder] = SampleDecoder, **options: Any) -> None:
        super().__init__()
        self.decoder = kind(**options)


def dataset_of(captions: Path, *, workers: int = 0, **options: Any) -> SavableDataset[Any]:
    return get_train_dataset(
        captions,
        batch_size=2,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers),
        task_encoder=Decodes(**options),
    )


# ------------------------------------------------------------------------------------------- indexes and pools


def row(key: Any, number: Any) -> IndexSample:
    return IndexSample(tar_file_id=0, sample_key=key, sample_index=number, byte_offset=0, byte_size=512)


def test_a_writer_of_an_index_refuses_what_it_cannot_write(tmp_path: Path) -> None:
    with SqliteIndexWriter(tmp_path / "index.sqlite") as writer:
        writer.append_samples([row("a", 0)])
        with pytest.raises(ConfigError, match="two rows of samples have the same place"):
            writer.append_samples([row("b", 1), row("c", 0)])
    with pytest.raises(ConfigError, match="closed"):
        writer.append_samples([row("d", 2)])
    with pytest.raises(ConfigError, match="expected reset_tables=True"):
        SqliteIndexWriter(tmp_path / "index.sqlite", reset_tables=False)
    with pytest.raises(StorageError, match="cannot write this file"):
        SqliteIndexWriter(tmp_path / "no_folder/index.sqlite")


def test_rows_of_an_index_come_from_any_iterable_and_a_key_twice_is_named(tmp_path: Path) -> None:
    with SqliteIndexWriter(tmp_path / "index.sqlite") as writer:
        writer.append_samples(row(key, number) for number, key in enumerate("ab"))
        with pytest.raises(DuplicateSampleKeyError, match="'b'"):
            writer.append_samples(row(key, number) for number, key in enumerate("cbd", 2))
        writer.append_samples(iter([row("c", 2)]))


def test_a_missing_field_of_a_row_is_named_with_its_sample(tmp_path: Path) -> None:
    part = IndexSamplePart(
        tar_file_id=0, sample_index=7, part_name="jpg", content_byte_offset=512, content_byte_size=None
    )
    with SqliteIndexWriter(tmp_path / "index.sqlite") as writer:
        with pytest.raises(ConfigError, match=r"expected a value of sample_index, found None in .*sample_key='b'"):
            writer.append_samples([row("a", 0), row("b", None)])
        with pytest.raises(ConfigError, match=r"expected a value of sample_key, found None in .*sample_index=1"):
            writer.append_samples([row(None, 1)])
        with pytest.raises(ConfigError, match=r"content_byte_size, found None in .*sample_index=7, part_name='jpg'"):
            writer.append_parts([part])
        writer.append_samples([row("a", 0)])  # none was written


def test_an_error_after_an_index_was_closed_is_the_one_that_is_raised(tmp_path: Path) -> None:
    def fail() -> None:
        with SqliteIndexWriter(tmp_path / "index.sqlite") as writer:
            writer.close()
            raise ValueError("of the user")

    with pytest.raises(ValueError, match="of the user"):
        fail()


def test_media_are_added_to_an_index_without_its_samples_being_lost(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    with SqliteIndexWriter(path) as writer:
        writer.append_samples([row("a", 0)])
    for _ in range(2):
        options = {"enable_sample_tables": False, "enable_media_metadata": True, "reset_tables": False}
        with SqliteIndexWriter(path, **options) as writer:
            writer.append_media_filter(strategy="extension", patterns="*.jpg")
    database = sqlite3.connect(path)
    counts = [database.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("samples", "media_filters")]
    database.close()
    assert counts == [(1,), (1,)]


class Collector(BaseAggregator[Any, Any]):  # type: ignore[misc] # type checkers do not see the alias
    def __init__(self) -> None:
        self.items: list[Any] = []

    def on_item(self, items: list[Any], aggregator_pool: Any) -> None:
        self.items += items
        if items == ["more"]:
            aggregator_pool.submit_task("last")

    def get_final_result_data(self) -> list[Any]:
        return self.items


class OddError(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")
        self.lock = threading.Lock()  # Dask lets exceptions pickle whatever arguments they take, but no lock


def items_of(task: str) -> Any:
    if task == "bad":
        raise ValueError("a bad task")
    if task == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "left":
        os._exit(9)
    if task == "odd":
        raise OddError("this", "that")
    if task == "lambda":
        return [lambda: task]
    return [task]


def pool_of(workers: int, *tasks: str, produce: Any = items_of) -> AggregatorPool[Any, Any, Any]:
    pool = AggregatorPool(workers, produce, Collector(), batch_size=1)
    for task in tasks:
        pool.submit_task(task)
    return pool


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pool_works_on_tasks_that_its_aggregator_adds_and_raises_their_errors(workers: int) -> None:
    assert pool_of(workers, "a", "more", "b").process() == ["a", "more", "b", "last"]
    pool = pool_of(workers, "a", "bad", "b")
    with pytest.raises(ValueError, match="a bad task") as caught:
        pool.process()
    assert pool.aggregator.items == ["a"]
    assert not workers or "in items_of" in caught.value.__notes__[0]  # where it was raised
    assert multiprocessing.active_children() == []


def test_errors_of_workers_that_do_not_pickle_arrive_as_texts() -> None:
    def fail(_: str) -> list[str]:
        raise DuplicateSampleKeyError("k")

    with pytest.raises(DuplicateSampleKeyError, match="'k'"):
        pool_of(1, "key", produce=fail).process()
    with pytest.raises(RuntimeError, match="OddError: this and that"):
        pool_of(1, "odd").process()
    with pytest.raises(AttributeError, match="Can't pickle"):
        pool_of(1, "lambda").process()


@pytest.mark.parametrize(("task", "how"), [("killed", "was killed by signal 9"), ("left", "ended with code 9")])
def test_a_dead_worker_ends_the_pool_with_its_exit_code_and_task(task: str, how: str) -> None:
    with pytest.raises(WorkerError, match=f"{how} while it worked on task 1, '{task}'"):
        pool_of(2, "a", task, "b").process()
    assert multiprocessing.active_children() == []


def test_large_tasks_and_items_fill_no_pipe() -> None:
    tasks = [letter * (1 << 20) for letter in "abcdef"]
    assert pool_of(1, *tasks).process() == tasks


class Finalized:
    """Garbage that ends a process which inherited it, and collects it."""

    def __init__(self) -> None:
        self.cycle, self.process = self, os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.process:
            os._exit(3)


def test_workers_of_a_process_with_threads_leave_its_garbage_alone() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    gc.disable()
    try:
        Finalized()
        assert pool_of(2, "a", "b", produce=lambda task: [task, gc.collect() < 0]).process() == ["a", False, "b", False]
    finally:
        gc.enable()
        gc.collect()  # else processes that later tests fork inherit the garbage
        done.set()
        thread.join()


def test_workers_return_objects_of_the_classes_of_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    exec("class Item:\n    pass", vars(main))
    monkeypatch.setitem(sys.modules, "__main__", main)
    (item,) = pool_of(1, "a", produce=lambda _: [main.Item()]).process()
    assert type(item) is main.Item


def test_an_auxiliary_folder_is_resolved_before_it_is_read() -> None:
    with pytest.raises(ConfigError, match="expected an absolute path"):
        AuxFilesystemReference(fs_path="files").post_initialize()
    with pytest.raises(ConfigError, match="post_initialize"):
        AuxFilesystemReference(fs_path="/files").get_file_store()


# --------------------------------------------------------------------------------------- datasets and loaders


def test_datasets_are_iterable_ones_of_torch_and_samples_by_number_are_none(captions: Path) -> None:
    dataset = dataset_of(captions)
    assert isinstance(dataset, torch.utils.data.IterableDataset)
    assert issubclass(loader.MapDataset, torch.utils.data.IterableDataset)
    assert not isinstance(random_access(captions), torch.utils.data.IterableDataset)
    for workers in (0, 1):
        with pytest.raises(TypeError, match=r"iterate get_loader\(dataset\) instead"):
            list(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers))


def test_only_the_loaders_of_the_alias_fork_whatever_the_process_has_set(
    captions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none=False: "spawn")
    dataset = dataset_of(captions, workers=1)
    methods = [get_loader(dataset).multiprocessing_context, loader.get_loader(dataset).multiprocessing_context]
    assert [method and method.get_start_method() for method in methods] == ["fork", None]
    spawned = get_loader(dataset, multiprocessing_context="spawn").multiprocessing_context
    assert spawned.get_start_method() == "spawn"
    assert get_loader(dataset, worker_type="thread").multiprocessing_context is None


def test_a_fork_after_cuda_was_initialised_warns_with_the_setting(
    captions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.warns(RuntimeWarning, match="forked after CUDA was initialised.*multiprocessing_context='spawn'"):
        get_loader(dataset_of(captions, workers=1)).start().shutdown()
    get_loader(dataset_of(captions, workers=1)).start().shutdown()  # once


def test_other_options_of_the_decoder_are_a_warning_that_names_them(
    captions: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = loader.get_loader(dataset_of(captions)).save_state_rank()
    with caplog.at_level(logging.WARNING):
        again = loader.get_loader(dataset_of(captions, image_decode="pilrgb"))
        again.restore_state_rank(state)
    assert "decoded in another way" in caplog.text
    assert "pilrgb" in caplog.text
    again.restore_state_rank(again.save_state_rank())


def test_a_decoder_of_another_class_is_another_pipeline() -> None:
    saved = ["decode", {"decoder": "A(x=1)"}, 1]
    assert with_decoders_of(["decode", {"decoder": "B(x=1)"}, 1], saved, []) == saved
    assert with_decoders_of(["decode", {}, 1], saved, []) == saved


def test_a_subclass_of_a_decoder_is_another_pipeline(captions: Path) -> None:
    class OwnDecoder(SampleDecoder):
        pass

    state = loader.get_loader(dataset_of(captions)).save_state_rank()
    for form in ("torchrgb", "pilrgb"):
        again = loader.get_loader(dataset_of(captions, kind=OwnDecoder, image_decode=form))
        with pytest.raises(StateError, match=r'decoder "SampleDecoder\(.* → "OwnDecoder\('):
            again.restore_state_rank(state)


def test_a_buffer_whose_samples_have_no_keys_stays_as_it_was(captions: Path) -> None:
    dataset = get_train_dataset(captions, worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0))
    buffer = SavableSampleBuffer(dataset)
    with pytest.raises(ValueError, match="expected a restore key for each of 2 samples, found 1"):
        buffer.extend(iter(["a", "b"]), [(1,)])
    buffer.extend(iter(["a", "b"]), [(1,), (2,)])
    assert (len(buffer), buffer.buffer, buffer.restore_key()) == (2, ["a", "b"], ((1,), (2,)))
