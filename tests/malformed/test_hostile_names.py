"""Keys, paths and captions with terminal escapes reach messages of errors, which must not pass them on."""

from __future__ import annotations

import copy
import json
import pickle
import unicodedata
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energon_cli.main import main
from loader import (
    DefaultTaskEncoder,
    SourceInfo,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    reraise_exception,
)
from loader.dataset.opening import folder_at
from loader.errors import ConfigError, EnergonError, Fault, FormatError, SampleException, StorageError, escape_controls
from loader.stores import DatasetFileStore
from loader.training.states.files import read_state_file
from tests.e2e.dataset_tree import prepare, write_shard
from tests.e2e.text_dataset import TEXT

EVIL = "k\x1b]0;owned\x07\x9b31m\u202eexe\u2066\r\u2028\u200bx\u200dy\U000e0041"


def as_yaml(text: str) -> str:
    """Return text in quotes; YAML reads the escapes of JSON, but no surrogate pairs."""
    return json.dumps(text).replace("\\udb40\\udc41", "\\U000e0041")


YAML_EVIL = as_yaml(EVIL)


def assert_plain(error: BaseException) -> None:
    for text in (str(error), *map(str, error.args)):
        unsafe = [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in "\n\t"]
        assert not unsafe, (unsafe, text)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / f"data{EVIL}"
    write_shard(folder / "s.tar", {f"{EVIL}{number}": {"txt": b"a"} for number in range(4)})
    prepare(folder, files={"dataset.yaml": TEXT})
    return folder


def mix_with_an_unknown_key(folder: Path) -> object:
    path = folder / "mix.yaml"
    path.write_text(
        f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    path: .\n    {YAML_EVIL}: 1\n"
    )
    return get_train_dataset(path, batch_size=1, **_ARGUMENTS)


def mix_of_a_missing_dataset(folder: Path) -> object:
    path = folder / "mix.yaml"
    path.write_text(
        f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train: {{path: {YAML_EVIL}}}\n"
    )
    return get_train_dataset(path, batch_size=1, **_ARGUMENTS)


_ARGUMENTS: dict[str, Any] = {
    "worker_config": WorkerConfig.default_worker_config(num_workers=0),
    "shuffle_buffer_size": None,
    "max_samples_per_sequence": None,
}


def split_with_an_unknown_key(folder: Path) -> object:
    (folder / ".nv-meta/split.yaml").write_text(f"{YAML_EVIL}: 1\nsplit_parts: {{}}\n")
    return folder_at(folder).documents.split


def unknown_split_part(folder: Path) -> object:
    return get_val_dataset(
        folder, batch_size=1, split_part=EVIL, worker_config=WorkerConfig.default_worker_config(num_workers=0)
    )


def sample_that_fails(folder: Path) -> object:
    class Failing(DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            raise ValueError(f"no {sample.__key__}")

    dataset = get_train_dataset(folder, batch_size=1, task_encoder=Failing(), **_ARGUMENTS)
    return list(zip(range(99_999), get_loader(dataset), strict=False))


def missing_file_of_a_store(folder: Path) -> object:
    return DatasetFileStore(folder)[f"{EVIL}9.txt"]


def damaged_column(folder: Path) -> object:
    (column,) = folder.glob(".nv-meta/index/*/key_hash.npy")
    column.write_bytes(b"\x1b]0;x\x07")
    return len(folder_at(folder).index)


def damaged_state(folder: Path) -> object:
    path = folder / "state.json"
    path.write_text(json.dumps({EVIL: {"version": 1, "lanes": 3, "ranks": 1, "rank": 0, "lane": 7}}))
    return read_state_file(path)


ENTRY_POINTS = [
    mix_with_an_unknown_key,
    mix_of_a_missing_dataset,
    split_with_an_unknown_key,
    unknown_split_part,
    sample_that_fails,
    missing_file_of_a_store,
    damaged_column,
    damaged_state,
]


@pytest.mark.parametrize("enter", ENTRY_POINTS, ids=lambda enter: enter.__name__)
@pytest.mark.filterwarnings("ignore")
def test_messages_escape_what_a_terminal_would_interpret(texts: Path, enter: Callable[[Path], object]) -> None:
    with pytest.raises(EnergonError) as caught:
        enter(texts)
    assert_plain(caught.value)
    assert "\\x1b]0;" in str(caught.value)


def test_texts_are_escaped_when_made_changed_copied_and_pickled() -> None:
    error = ConfigError(faults=[Fault(place=f"a\n{EVIL}", message=f"found {EVIL}")], file=EVIL, hint=EVIL)
    assert_plain(error)
    assert str(error).count("\n") == 2  # a place has no line breaks
    error.at = error.hint = EVIL
    assert_plain(error)
    assert error.file == EVIL  # fields are for programs
    for copied in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert str(copied) == str(error)
        assert copied.file == EVIL
    assert_plain(SampleException.from_sample_key(EVIL, EVIL))
    assert StorageError("a", path="caf\udce9").at == "caf\\xe9"
    assert FormatError("two\n\tlines", shard="ä🙂.tar").message == "two\n\tlines"


def test_joiners_stay_where_they_join() -> None:
    words = "می\u200cخواهم", "\U0001f468\u200d\U0001f469", "क्\u200dष"
    for word in words:
        assert escape_controls(word) == word
    assert escape_controls("a\u200db\u200c") == "a\\u200db\\u200c"
    assert escape_controls("\u200dé\u200d") == "\\u200dé\\u200d"
    assert escape_controls("a\U000e0041") == "a\\U000e0041"


def assert_safe(text: str, *, quoted: str = "\\x1b]0;") -> None:
    assert_plain(Exception(text))
    assert quoted in text


class Failing(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Encoder that fails with an error of its own, which quotes the key."""

    def encode_sample(self, sample: Any) -> Any:
        raise ValueError(f"no {sample.__key__}")


@pytest.mark.parametrize("workers", [0, 1])
def test_log_records_and_their_tracebacks_are_escaped(
    texts: Path, workers: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    config = WorkerConfig.default_worker_config(num_workers=workers)
    dataset = get_train_dataset(texts, batch_size=1, task_encoder=Failing(), **{**_ARGUMENTS, "worker_config": config})
    with pytest.raises(EnergonError) as caught:
        list(get_loader(dataset))
    for text in (*caplog.messages, caplog.text, *getattr(caught.value, "__notes__", ()), *capfd.readouterr()):
        assert_plain(Exception(text))
    if not workers:
        assert "\\x1b]0;" in caplog.text
        assert "Traceback" in caplog.text


def test_printed_chains_and_sources_are_escaped(texts: Path) -> None:
    dataset = get_train_dataset(texts, batch_size=1, **_ARGUMENTS)
    source = SourceInfo(dataset_path=str(texts), index=0, shard_name="s.tar", file_names=(f"{EVIL}.txt",))
    for text in (str(dataset), str(get_loader(dataset)), str(source)):
        assert_safe(text)


def test_the_debug_log_has_lines_of_ascii(texts: Path) -> None:
    config = replace(_ARGUMENTS["worker_config"], worker_debug_path=texts / "log.txt", worker_log_level=1)
    config.worker_log({"keys": [EVIL, "caf\udce9"]})  # the latter is a name that is not UTF-8
    assert json.loads((texts / "log.txt").read_text("ascii")) == {"keys": [EVIL, "caf\udce9"]}


def test_notes_on_errors_of_hooks_are_escaped(texts: Path) -> None:
    config = replace(WorkerConfig.default_worker_config(num_workers=0), global_error_handler=reraise_exception)
    dataset = get_train_dataset(texts, batch_size=1, task_encoder=Failing(), **{**_ARGUMENTS, "worker_config": config})
    with pytest.raises(ValueError, match="no ") as caught:
        next(iter(get_loader(dataset)))
    assert_safe("\n".join(caught.value.__notes__))


def test_warnings_are_escaped(texts: Path) -> None:
    mix = texts / "old.yaml"
    path = as_yaml(str(texts))
    mix.write_text(
        f"__module__: megatron.energon\n__class__: Metadataset\n{YAML_EVIL}: 1\n"
        f"splits: {{train: {{datasets: [{{path: {path}, weight: 1}}, {{path: {path}, weight: 1}}]}}}}\n"
    )
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        get_train_dataset(mix, batch_size=1, **_ARGUMENTS)
    assert len(warned) == 2
    for warning in warned:
        assert_safe(str(warning.message))


@pytest.mark.parametrize(
    "arguments",
    [
        ["lint", f"/no/{EVIL}"],
        ["lint", "/", f"--{EVIL}"],
        [f"{EVIL}"],
        ["preview", "/", "-n", EVIL],
        ["checkpoint", "info", f"/no/{EVIL}"],
        ["info", f"/no/{EVIL}", "--debug"],
    ],
)
def test_wrong_arguments_are_printed_escaped(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) != 0
    printed = capsys.readouterr()
    assert_safe(printed.out + printed.err)


def test_a_traceback_of_debug_is_printed_escaped(texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (texts / ".nv-meta/dataset.yaml").write_text(f"{YAML_EVIL}: 1\nsample_type: [")
    assert main(["info", str(texts), "--debug"]) == 1
    printed = capsys.readouterr()
    assert "Traceback" in printed.err
    assert_safe(printed.err)
