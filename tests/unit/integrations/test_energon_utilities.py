"""Utilities of megatron-energon besides the loaders: generators, hooks, errors, documents, indexes."""

from __future__ import annotations

import gc
import os
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from megatron.energon import EPath, FatalSampleError, SkipSample, WorkerConfig
from megatron.energon.dataset_config import load_config
from megatron.energon.errors import ErrorContext, handle_restore_errors
from megatron.energon.flavors.jsonl.ijsonl import (
    CachedIJsonlOffsetReader,
    IJsonlFile,
    IJsonlIndexReader,
    IJsonlIndexWriter,
)
from megatron.energon.flavors.jsonl.ijsonl_reader import IJsonlReader
from megatron.energon.flavors.webdataset.metadata import WebdatasetMeta, check_dataset_info_present, get_dataset_info
from megatron.energon.flavors.webdataset.prepare import WebdatasetPreparator
from megatron.energon.flavors.webdataset.structs import ShardInfo, WebdatasetInfo, WebdatasetSplits
from megatron.energon.fork_hook import DataclassForkMixin, ForkMixin, WeakCallbacks, after_in_child_fork_hook
from megatron.energon.rng import SystemRng, WorkerRng
from webdataset import TarWriter

from loader import (
    BaseWebdatasetFactory,
    ConfigError,
    CrudeWebdataset,
    StandardWebdatasetFactory,
    StateError,
    TrustError,
    get_loader,
)
from loader.format.jsonl.index import prepare_jsonl
from loader.storage import LocalStorage

# ------------------------------------------------------------------------------------------------------- generators


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(1))  # noqa: NPY002 - the global generator


def test_global_generators_are_seeded_saved_and_restored() -> None:
    outer = SystemRng.save_state()
    try:
        SystemRng.seed(5)
        first = draws()
        assert first[:2] == (random.Random(5).random(), np.random.RandomState(5).rand())
        assert first[2] == pytest.approx(0.8302518725)
        state = pickle.loads(pickle.dumps(SystemRng.save_state()))
        second = draws()
        SystemRng.restore_state(state)
        assert draws() == second != first
        SystemRng.seed_args(1, "a", None)
        assert random.random() == random.Random(3107733978).random()
        with pytest.raises(ValueError, match="2\\*\\*32"):
            SystemRng.seed(1 << 40)
    finally:
        SystemRng.restore_state(outer)


def test_a_worker_generator_is_restored() -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    rng, other = WorkerRng(config), WorkerRng(config)

    def drawn(rng: WorkerRng) -> list[Any]:
        values = list(range(20))
        return [
            rng.randbelow(1000), rng.choice(values), rng.choice(values[:2], torch.tensor([0.1, 0.9])),
            rng.shuffle(values), rng.rand_pop(values), values,
        ]  # fmt: skip

    first = drawn(rng)
    state = rng.save_state()
    second = drawn(rng)
    assert second != first == drawn(other)
    other.restore_state(state)
    assert drawn(other) == second
    other.restore_state({"rng": None})
    assert drawn(other) == first
    counts = torch.bincount(torch.tensor([rng.choice_idx(torch.tensor([0.25, 0.75])) for _ in range(2000)]))
    assert 400 < int(counts[0]) < 600
    with pytest.raises(StateError, match="WorkerRng"):
        rng.restore_state({"other": 1})


# ------------------------------------------------------------------------------------------------------- fork hooks


class Connection(ForkMixin):  # type: ignore[misc]  # not followed by mypy
    def __init__(self, calls: list[str]) -> None:
        super().__init__()
        self.calls = calls

    def __before_fork__(self) -> None:
        self.calls.append("before")

    def __after_in_child_fork__(self) -> None:
        self.calls.append("child")

    def __after_in_parent_fork__(self) -> None:
        self.calls.append("parent")


@dataclass
class Record(DataclassForkMixin):  # type: ignore[misc]  # as above
    calls: list[str] = field(default_factory=list)

    def __after_in_child_fork__(self) -> None:
        self.calls.append("child")


def in_child(report: Callable[[], str]) -> str:
    """Fork, and return what a function returns in the child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, report().encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as result:
        text = result.read()
    os.waitpid(child, 0)
    return text


def test_objects_and_functions_are_called_when_the_process_forks() -> None:
    calls: list[str] = []
    connection, record = Connection(calls), Record()
    dropped = Connection(calls)
    del dropped
    gc.collect()

    def count() -> None:
        calls.append("function")

    after_in_child_fork_hook(count)
    assert in_child(lambda: " ".join([*calls, *record.calls])) == "before child function child"
    assert (calls, record.calls) == (["before", "parent"], [])
    del connection


def test_callbacks_are_dropped_with_their_objects() -> None:
    calls: list[int] = []

    class Counter:
        def count(self, number: int) -> None:
            calls.append(number)

    callbacks, counter = WeakCallbacks(), Counter()
    callbacks.add_hook(counter.count)
    callbacks.add_hook(counter.count)  # is called once
    callbacks.add_hook(lambda number: calls.append(-number))
    callbacks.add_hook(lambda number: calls.append(10 * number), make_persistent=True)
    callbacks.run(1)
    del counter
    gc.collect()
    callbacks.run(2)
    assert calls == [1, 10, 20]


# ----------------------------------------------------------------------------------------------------------- errors


def test_errors_in_a_row_stop_the_run() -> None:
    handled: list[Any] = []
    context = ErrorContext(name="resize", handler=lambda error, sample, sources: handled.append(sample), tolerance=3)

    def fail(error: Exception | None, sample: str = "") -> None:
        with context.handle_errors(sample):
            if error is not None:
                raise error

    for error in (ValueError("a"), SkipSample(), ValueError("b"), None, ValueError("c"), ValueError("d")):
        fail(error, "broken")
    assert handled == ["broken"] * 4
    with pytest.raises(FatalSampleError, match="resize failed 3 times in a row") as caught:
        fail(ValueError("e"))
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(FatalSampleError, match="system exception: no module"):
        fail(ImportError("no module"))
    with pytest.raises(KeyboardInterrupt):
        fail(KeyboardInterrupt())  # type: ignore[arg-type]
    assert len(handled) == 5
    with pytest.raises(FatalSampleError), handle_restore_errors(lambda *_: None, {"__key__": "k"}):
        raise NameError("x")


# ------------------------------------------------------------------------------------------------------- documents


@dataclass
class Part:
    name: str
    share: float = 1.0


@dataclass
class Job:
    parts: list[Part]
    info: WebdatasetInfo | None = None
    mode: Literal["fast", "slow"] = "fast"
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)


def test_a_document_becomes_an_object(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "parts: [{name: a}, {name: b, share: 2}]\nsizes: {x: [1, 2]}\nmode: slow\ninfo: {shard_counts: {s.tar: 3}}\n"
    )
    expected = Job([Part("a"), Part("b", 2)], WebdatasetInfo(shard_counts={"s.tar": 3}), "slow", {"x": (1, 2)})
    assert load_config(EPath(file), default_type=Job) == expected
    assert load_config({}, default_type=Job, default_kwargs={"parts": []}) == Job([])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "missing argument 'parts'"),
        ({"parts": [], "part": 1}, "unexpected arguments of Job: \\['part'\\]"),
        ({"parts": [{"name": 3}]}, "expected str, found 3\n  at: parts\\[0\\].name"),
        ({"parts": [], "mode": "slwo"}, "found 'slwo'"),
        ({"parts": [], "sizes": {"x": [1]}}, "expected 2 values, found 1"),
        ({"parts": [], "info": {"shard_counts": {"s": True}}}, "expected int, found True"),
    ],
)
def test_a_wrong_document_is_refused(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(content, default_type=Job)


def test_a_document_calls_no_code_that_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENERGON_TRUST_CODE", raising=False)
    call = {"__module__": "os", "__function__": "getcwd"}
    for content in (call, {"__module__": "subprocess", "__class__": "Popen", "args": ["true"]}):
        with pytest.raises(TrustError):
            load_config(content, default_type=object)
    named = {"__module__": "megatron.energon.flavors.webdataset.structs", "__class__": "WebdatasetSplits"}
    made = load_config({**named, "split_parts": {"train": ["a.tar"]}}, default_type=object)
    assert made == WebdatasetSplits(split_parts={"train": ["a.tar"]})
    with pytest.raises(TrustError, match=r"asks to call threading\.Thread"):
        load_config({"__module__": "threading", "__class__": "Thread"}, default_type=WebdatasetInfo)
    with pytest.raises(TrustError, match="asks for trust_code"):
        load_config({"path": "/data", "trust_code": True}, default_type=BaseWebdatasetFactory)
    monkeypatch.setenv("ENERGON_TRUST_CODE", "1")
    assert load_config(call, default_type=object) == os.getcwd()


# --------------------------------------------------------------------------------------------------- JSONL indexes


def test_an_index_is_written_and_read(tmp_path: Path) -> None:
    path = EPath(tmp_path) / "x.jsonl"
    lines = [b'{"n": %d}\n' % number for number in range(12)]
    path.write_bytes(b"".join(lines))
    offsets = np.cumsum([0, *map(len, lines)]).tolist()
    with pytest.raises(AttributeError), IJsonlIndexWriter(path) as writer:
        writer.append("not a number")
    IJsonlIndexWriter(path).close(finalize=False)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.jsonl"]
    with IJsonlIndexWriter(path) as writer:
        for offset in offsets:
            writer.append(offset)
    index = (tmp_path / "x.jsonl.idx").read_bytes()
    prepare_jsonl(LocalStorage(str(tmp_path)), "x.jsonl")
    assert (tmp_path / "x.jsonl.idx").read_bytes() == index
    with IJsonlIndexReader(path) as reader:
        assert (list(reader), len(reader), reader[3]) == (offsets, 13, offsets[3])
        with pytest.raises(IndexError):
            reader[-1]
    assert (IJsonlIndexReader.count_samples(path), IJsonlIndexReader.size(path)) == (12, offsets[-1])
    places = CachedIJsonlOffsetReader(path)
    assert (len(places), places.get_ijsonl_byte_offset(11)) == (12, (offsets[11], len(lines[11])))
    assert places.get_ijsonl_byte_offset(12) == (places.get_total_size(), 0)
    with IJsonlFile((tmp_path / "x.jsonl").open("rb")) as file:
        assert (file.next(offsets[2]), file.next(), file.next(offsets[5], 4)) == (lines[2], lines[3], lines[5][:4])
        file.seek(offsets[10])
        assert (list(file), file.next()) == (lines[10:], None)


def test_samples_of_a_jsonl_file_are_read_by_number_and_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"n": 0}\n{"n": 1}\n')
    prepare_jsonl(LocalStorage(str(tmp_path)), "x.jsonl")
    reader = IJsonlReader(EPath(tmp_path) / "x.jsonl", sample_filter=lambda key: key == "1")
    sample = reader[1]
    assert isinstance(sample, dict)
    assert (sample["__key__"], sample["__shard__"], sample["json"]) == ("1", "x.jsonl", b'{"n": 1}')
    assert (reader[0], len(reader), reader.get_total_size()) == (None, 2, 18)
    assert reader["0.json"] == (b'{"n": 0}', sample["__sources__"][0]._replace(index=0, file_names=("0.json",)))
    assert list(reader.list_all_sample_parts()) == [("0.json", 9, 0), ("1.json", 9, 0)]
    with pytest.raises(KeyError, match=r"17\.json"):
        reader["1.txt"]
    reader.close()


# ------------------------------------------------------------------------------------------------- prepared datasets


def test_a_script_prepares_a_dataset_and_reads_its_shards(tmp_path: Path) -> None:
    for shard in range(4):
        with TarWriter(str(tmp_path / f"s_{shard}.tar")) as tar:
            for number in range(3):
                tar.write({"__key__": f"{shard}_{number}", "txt": "text", "json": {}})
    assert not check_dataset_info_present(EPath(tmp_path))
    parts = WebdatasetPreparator.prepare_dataset(
        tmp_path, ["s_{0..3}.tar"], split_parts_ratio=[("train", 2), ("val", 1), ("test", 1)], workers=1
    )
    assert parts == {"txt", "json"}
    counts = {f"s_{shard}.tar": 3 for shard in range(4)}
    assert get_dataset_info(EPath(tmp_path)) == {"energon_version": "7.4.1", "shard_counts": counts}
    meta = WebdatasetMeta.from_config(EPath(tmp_path), split_part="train")
    assert meta.shards == [
        ShardInfo(name=name, path=EPath(tmp_path) / name, count=3) for name in ("s_2.tar", "s_1.tar")
    ]
    assert (meta.info_shard_files, meta.sample_excludes) == (list(counts), set())
    with pytest.raises(ConfigError, match="no split part 'trian'; did you mean 'train'"):
        WebdatasetMeta.from_config(EPath(tmp_path), split_part="trian")
    assert issubclass(BaseWebdatasetFactory, WebdatasetPreparator)


@pytest.mark.parametrize("make_path", [EPath, Path, str])
def test_a_document_of_a_dataset_is_built_as_the_class_that_it_names(
    make_path: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TarWriter(str(tmp_path / "s.tar")) as tar:
        tar.write({"__key__": "a", "txt": "text"})
    WebdatasetPreparator.prepare_dataset(tmp_path, ["s.tar"], split_parts_ratio=[("train", 1)], workers=1)
    monkeypatch.delenv("ENERGON_TRUST_CODE", raising=False)
    (tmp_path / "crude.yaml").write_text("__module__: megatron.energon\n__class__: CrudeWebdataset\n")
    sample_type = "{__module__: megatron.energon, __class__: TextSample}"
    (tmp_path / "texts.yaml").write_text(f"sample_type: {sample_type}\nfield_map: {{text: txt}}\n")
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    defaults = {"path": make_path(str(tmp_path)), "split_part": "train", "worker_config": config}
    for file, expected, part in (
        ("crude.yaml", CrudeWebdataset, "txt"),
        ("texts.yaml", StandardWebdatasetFactory, "text"),
    ):
        made: Any = load_config(tmp_path / file, default_type=StandardWebdatasetFactory, default_kwargs=defaults)
        assert (type(made), made.path) == (expected, EPath(tmp_path))
        (sample,) = get_loader(made.build())
        assert (sample[part] if isinstance(sample, dict) else getattr(sample, part)) == "text"
    # The caller may trust a dataset; the dataset itself may not ask for it.
    trusted = {**defaults, "trust_code": True}
    assert load_config(tmp_path / "crude.yaml", default_type=CrudeWebdataset, default_kwargs=trusted).trust_code
