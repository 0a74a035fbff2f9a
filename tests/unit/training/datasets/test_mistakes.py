"""Frequent mistakes are errors in words, with the fix."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch.utils.data

from loader import (
    ConfigError,
    DefaultTaskEncoder,
    RepeatedSampleError,
    StorageError,
    TaskEncoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    random_access,
)
from loader.pipeline.stages.filter import FilterDataset
from loader.pipeline.stages.iter_map import IterMapDataset
from loader.pipeline.stages.map import MapDataset
from tests.e2e.mixed_data import write_metadataset
from tests.unit.pipeline.tar_dataset import texts, write_dataset

CONFIG = """\
sample_type: {__module__: megatron.energon, __class__: CaptioningSample}
field_map:
  image: json
  caption: text
"""
ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, global_error_handler=lambda *_: None)
ARGUMENTS: dict[str, Any] = {"batch_size": 2, "shuffle_buffer_size": None, "max_samples_per_sequence": None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("mistakes") / "ds", {"a.tar": texts(0, 30)})


def first(path: Path, encoder: Any = None, **options: Any) -> Any:
    dataset = get_train_dataset(path, worker_config=ONE, task_encoder=encoder, **ARGUMENTS | options)
    return next(iter(get_loader(dataset)))


# ------------------------------------------------------------------------------------------------------- field maps


def test_a_wrong_field_map_names_all_parts_the_nearest_one_and_the_file(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "ds", {"a.tar": texts(0, 30)}, config=CONFIG)
    with pytest.raises(RepeatedSampleError) as caught:
        first(path)
    *_, last = str(caught.value).splitlines()
    assert last.startswith("  cause: SampleError: sample 'a.tar/")
    assert "this sample has only the parts txt, json; did you mean 'txt'?" in last
    assert f"correct field_map in {path}/.nv-meta/dataset.yaml, line 4" in last


def test_the_cause_is_the_first_failure_of_several(folder: Path) -> None:
    class Failing(DefaultTaskEncoder[Any, Any, Any, Any]):
        seen = 0

        def encode_sample(self, sample: Any) -> Any:
            self.seen += 1
            raise ValueError(f"call {self.seen}")

    with pytest.raises(RepeatedSampleError) as caught:
        first(folder, Failing())
    assert str(caught.value).splitlines()[-1].endswith(": ValueError: call 1")
    assert "ValueError: call 100" in caught.value.message


class Refusing(DefaultTaskEncoder[Any, Any, Any, Any]):
    """An encoder that fails for samples of one dataset, and whose samples do not say which dataset they are from."""

    def __init__(self, hook: str) -> None:
        super().__init__()
        self.hook = hook

    def preencode_sample(self, sample: Any) -> Any:
        path = str(sample["__sources__"][0].dataset_path)
        cooked = {"__key__": sample["__key__"], "is_broken": path.endswith("broken")}
        return self.refuse("preencode_sample", cooked)

    def refuse(self, hook: str, sample: Any) -> Any:
        if hook == self.hook and sample["is_broken"]:
            raise ValueError("refused")
        return sample

    def batch(self, samples: list[Any]) -> Any:
        for sample in samples:
            self.refuse("batch", sample)
        return samples

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [[sample] for sample in samples]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return self.refuse("pack_selected_samples", samples[0])


@pytest.mark.parametrize("hook", ["decode", "preencode_sample", "pack_selected_samples", "batch"])
def test_a_dataset_that_fails_as_a_whole_ends_a_mix_by_name(hook: str, folder: Path, tmp_path: Path) -> None:
    broken = write_dataset(
        tmp_path / "broken", {"a.tar": texts(0, 30)}, **{"config": CONFIG} if hook == "decode" else {}
    )
    entries = [{"path": str(folder), "weight": 9}, {"path": str(broken), "weight": 1}]
    mix = write_metadataset(tmp_path / "mix.yaml", {"train": {"blend": entries}})
    dataset = get_train_dataset(
        mix,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4, global_error_handler=lambda *_: None),
        task_encoder=Refusing(hook),
        packing_buffer_size=20,
        **ARGUMENTS,
    )
    match = f"^{hook} failed 100 times in a row for samples of {broken}, the"
    with pytest.raises(RepeatedSampleError, match=match):
        list(islice(get_loader(dataset), 2000))


# ------------------------------------------------------------------------------------------- a forgotten return


def nothing(*_: Any) -> None:
    """Return nothing."""


class OneGroup(DefaultTaskEncoder[Any, Any, Any, Any]):
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return samples[0]


@pytest.mark.parametrize(
    ("hook", "options"),
    [
        ("encode_sample", {}),
        ("batch", {}),
        ("encode_batch", {}),
        ("batch_group_criterion", {}),
        ("select_samples_to_pack", {"packing_buffer_size": 3}),
        ("pack_selected_samples", {"packing_buffer_size": 3}),
    ],
)
def test_a_hook_without_return_is_an_error_that_names_it(hook: str, options: dict[str, Any], folder: Path) -> None:
    def no_return(self: Any, given: Any) -> None:
        """Forget the return."""

    no_return.__name__ = hook
    encoder = type("Encoder", (OneGroup,), {hook: no_return})
    with pytest.raises(ConfigError, match=f"{hook} returned None; did you forget `return`"):
        first(folder, encoder(), **options)


def test_a_generator_that_yields_nothing_is_an_error(folder: Path) -> None:
    class Yielding(DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            yield

    with pytest.raises(ConfigError, match="encode_sample yielded None"):
        first(folder, Yielding())


@pytest.mark.parametrize("stage", [MapDataset, IterMapDataset])
def test_a_function_of_a_stage_without_return_is_an_error(stage: Any, folder: Path) -> None:
    dataset = stage(get_train_dataset(folder, worker_config=ONE, **ARGUMENTS), nothing)
    with pytest.raises(ConfigError, match="nothing returned None"):
        next(iter(get_loader(dataset)))


def test_a_filter_may_return_none(folder: Path) -> None:
    dataset = get_val_dataset(folder, split_part="train", batch_size=None, worker_config=ONE)
    keeps: Any = lambda sample: True if sample["__key__"].endswith("3") else None  # noqa: E731 - of any type
    kept = FilterDataset(dataset, keeps)
    assert len(list(get_loader(kept))) == 3


# --------------------------------------------------------------------------------------------- names of hooks


def returns_argument(self: Any, given: Any) -> Any:
    return given


@pytest.mark.parametrize(
    ("name", "hook"),
    [
        ("encode_sampel", "encode_sample"),
        ("pre_encode_sample", "preencode_sample"),
        ("encode_bacth", "encode_batch"),
        ("cook_crude_samples", "cook_crude_sample"),
        ("select_sample_to_pack", "select_samples_to_pack"),
    ],
)
def test_a_method_that_is_nearly_a_hook_warns_once_with_the_hooks_name(name: str, hook: str, folder: Path) -> None:
    encoder = type(f"Misspelt_{name}", (TaskEncoder,), {name: returns_argument})
    with pytest.warns(RuntimeWarning, match=rf"Misspelt_{name}\.{name} is no hook .*; did you mean '{hook}'\?"):
        get_train_dataset(folder, task_encoder=encoder())
    random_access(folder, task_encoder=encoder())


@pytest.mark.parametrize(
    "names", [["_encode_sampel"], ["decode"], ["encode_sample", "encode_samples"], ["build_batch"]], ids=" ".join
)
def test_other_methods_do_not_warn(names: list[str], folder: Path) -> None:
    encoder = type("Encoder", (TaskEncoder,), dict.fromkeys(names, returns_argument))
    random_access(folder, task_encoder=encoder())


# ------------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batch_size", "8", "expected an integer as batch_size, found '8' (str); pass batch_size=8"),
        ("batch_size", 2.5, "expected an integer as batch_size, found 2.5 (float)"),
        ("shuffle_buffer_size", "many", "expected an integer as shuffle_buffer_size, found 'many' (str)"),
        ("max_samples_per_sequence", "9", "pass max_samples_per_sequence=9"),
        ("task_encoder", DefaultTaskEncoder, "found the class DefaultTaskEncoder; pass DefaultTaskEncoder(…)"),
        ("task_encoder", nothing, "expected a TaskEncoder as task_encoder, found 'nothing'; derive"),
        ("worker_config", 4, "expected a WorkerConfig as worker_config, found 4; pass WorkerConfig.default_"),
        ("repeat", "no", "expected True or False as repeat, found 'no' (str)"),
        ("batch_drop_last", "yes", "expected True or False as batch_drop_last, found 'yes' (str)"),
        ("worker_config", WorkerConfig, "expected a WorkerConfig as worker_config, found WorkerConfig; pass"),
    ],
)
def test_an_argument_of_another_type_is_an_error(name: str, value: Any, message: str, folder: Path) -> None:
    with pytest.raises(TypeError) as caught:
        get_train_dataset(folder, **{"worker_config": ONE, **ARGUMENTS, name: value})
    assert message in str(caught.value)


@pytest.mark.parametrize("get", [get_train_dataset, get_val_dataset])
@pytest.mark.parametrize("path", [None, 3])
def test_a_path_of_another_type_is_an_error(get: Any, path: Any) -> None:
    with pytest.raises(TypeError, match=f"expected a path for {get.__name__}\\(\\), found {path}"):
        get(path, worker_config=ONE, **(ARGUMENTS if get is get_train_dataset else {"batch_size": 2}))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WorkerConfig.default_worker_config(num_workers="4"), "found '4' (str); pass num_workers=4"),  # type: ignore[arg-type]
        (lambda: WorkerConfig(rank=None, world_size=1, num_workers=0), "as rank, found None"),  # type: ignore[arg-type]
    ],
)
def test_a_worker_config_takes_integers(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert message in str(caught.value)


def test_loader_options_of_another_type_are_errors(folder: Path) -> None:
    dataset = get_train_dataset(folder, worker_config=ONE, **ARGUMENTS)
    with pytest.raises(TypeError, match="as prefetch_factor, found '2'"):
        get_loader(dataset, prefetch_factor="2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="as watchdog_timeout_seconds, found '60'"):
        get_loader(dataset, watchdog_timeout_seconds="60")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected True or False as pin_memory, found 'no'"):
        get_loader(dataset, pin_memory="no")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a WorkerConfig or None as worker_config, found 3"):
        get_loader(dataset, worker_config=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"expected a multiprocessing_context of 'fork', .*found 'thread'"):
        get_loader(dataset, multiprocessing_context="thread")
    with pytest.raises(TypeError, match="expected a function as global_error_handler, found 3"):
        WorkerConfig(rank=0, world_size=1, num_workers=0, global_error_handler=3)  # type: ignore[arg-type]


def test_torchs_loader_around_a_dataset_is_an_error_that_names_get_loader(folder: Path) -> None:
    dataset: Any = get_train_dataset(folder, worker_config=ONE, **ARGUMENTS)
    with pytest.raises(TypeError, match=r"iterate get_loader\(dataset\) instead of torch's DataLoader"):
        next(iter(torch.utils.data.DataLoader(dataset)))


def test_a_loader_prints_its_workers_and_its_chain(folder: Path) -> None:
    dataset = get_train_dataset(folder, worker_config=ONE, task_encoder=TaskEncoder[Any, Any, Any, Any](), **ARGUMENTS)
    first_line, second, *rest = str(get_loader(dataset)).splitlines()
    assert first_line.startswith("DataLoader(num_workers=0, ")
    assert second == "└─ batch(batch_size=2, drop_last=False)"
    assert rest[-1].strip() == f"└─ {folder}, train: 30 samples"


@pytest.mark.parametrize("load", [get_train_dataset, get_val_dataset, random_access], ids=lambda load: load.__name__)
def test_an_error_about_the_data_to_open_has_no_inner_frames(tmp_path: Path, load: Callable[..., Any]) -> None:
    options = {} if load is random_access else {"worker_config": ONE, "batch_size": 1}
    if load is get_train_dataset:
        options |= {"shuffle_buffer_size": None, "max_samples_per_sequence": None}
    with pytest.raises(StorageError, match="not a prepared dataset") as caught:
        load(tmp_path, **options)
    functions = [entry.name for entry in caught.traceback]
    assert functions[1] == load.__name__
    assert functions[-1] == "open_leaves"
    assert len(functions) <= 4


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_about_a_file_that_the_first_batch_reads_has_no_inner_frames(tmp_path: Path, workers: int) -> None:
    path = write_dataset(tmp_path / "ds", {"a.tar": texts(0, 30)})
    (path / ".nv-meta/dataset.yaml").write_text("sample_type: {__class__: [\n")
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    loader: Any = get_loader(get_train_dataset(path, worker_config=config, **ARGUMENTS))
    with pytest.raises(ConfigError, match="this is not plain YAML") as caught, loader:
        next(iter(loader))
    assert len(caught.traceback) <= 3
    assert "Traceback" not in "".join(getattr(caught.value, "__notes__", ()))
