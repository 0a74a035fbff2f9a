"""Checkpoints made to take minutes or gigabytes are refused before their values are made."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader import (
    SavableDataLoader,
    StateError,
    WorkerConfig,
    get_loader,
    get_train_dataset,
)
from loader.training.states.describe import describe_run
from loader.training.states.files import read_state_file
from loader.training.states.run_state import RunState
from tests.e2e.text_dataset import write_texts
from tests.elastic_runs import sealed

SIZE = 7 << 20
COUNT = SIZE // 12


def torch_zip(pickled: bytes, *, compression: int = zipfile.ZIP_STORED, records: int = 0) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + pickled)
        archive.writestr("archive/version", "3\n")
        for number in range(records):
            archive.writestr(f"archive/data/{number:0200}", b"")
    return file.getvalue()


def state_text(**changes: Any) -> str:
    return json.dumps(sealed({**RunState(lanes=48, ranks=1, rank=0, seed=0).to_plain(), **changes}))


def long_string(text: bytes) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text


def doubled_key() -> bytes:
    """Return a pickle of a dict whose key is a tuple of 2 to the power of 60 items."""
    pairs = b"".join(
        b"h" + bytes([depth]) + b"h" + bytes([depth]) + b"\x86q" + bytes([depth + 1]) for depth in range(60)
    )
    return b")q\0" + pairs + b"}h\x3cK\x01s."


TOO_MANY = r"expected a state of at most [\d,]+ values, found more"
FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "lists in json": (lambda: b"[" + b"[]," * COUNT + b"[]]", TOO_MANY),
    "nested json": (lambda: b"[" * SIZE, TOO_MANY),
    "keys in json": (lambda: json.dumps(dict.fromkeys(map(str, range(COUNT // 2)))).encode(), TOO_MANY),
    "a large state": (lambda: state_text(steps=[1] * COUNT).encode(), TOO_MANY),
    "many states": (lambda: b"[" + b",".join([state_text().encode()] * (COUNT // 20)) + b"]", TOO_MANY),
    "digits": (lambda: b"[" + b"9" * SIZE + b"]", "this JSON cannot be read"),
    "lists": (lambda: torch_zip(b"(" + b"]" * SIZE + b"l."), TOO_MANY),
    "nested": (lambda: torch_zip(b"]" * COUNT + b"a" * (COUNT - 1) + b"."), TOO_MANY),
    "references": (lambda: torch_zip(b"]q\0(" + b"h\0" * (SIZE // 2) + b"e."), TOO_MANY),
    "memo": (lambda: torch_zip(b"N" + b"".join(b"r" + struct.pack("<I", number) for number in range(COUNT))), TOO_MANY),
    "marks": (lambda: torch_zip(b"(" * SIZE), TOO_MANY),
    "a long integer": (
        lambda: torch_zip(b"\x8b" + struct.pack("<i", SIZE) + b"\x7f" * SIZE + b"."),
        "thousands of digits",
    ),
    "a claimed string": (lambda: torch_zip(b"X\xff\xff\xff\xffa."), "cut off"),
    "an old protocol": (lambda: torch_zip(b"I1\n."), "which torch.save does not write"),
    "half an integer": (lambda: torch_zip(b"J\0\0"), "its pickle is damaged"),
    "no value": (lambda: torch_zip(b"."), "its pickle is damaged"),
    "an unknown reference": (lambda: torch_zip(b"h\x05."), "its pickle is damaged"),
    "no mark": (lambda: torch_zip(b"Nt."), "its pickle is damaged"),
    "items of a number": (lambda: torch_zip(b"K\1NNs."), "its pickle is damaged"),
    "a bomb of lists": (lambda: torch_zip(b"(" + b"]" * SIZE, compression=zipfile.ZIP_DEFLATED), TOO_MANY),
    "a bomb": (lambda: torch_zip(long_string(bytes(30 << 20)), compression=zipfile.ZIP_DEFLATED), "found 30 MiB"),
    "records": (lambda: torch_zip(b"}.", records=70_000), "found a list of records of"),
}


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow 8 MiB and 131,072 values, so that files need not be large."""
    monkeypatch.setenv("ENERGON_MAX_DOCUMENT_BYTES", str(8 << 20))


@pytest.mark.parametrize(("make", "message"), FILES.values(), ids=FILES)
def test_a_hostile_file_is_refused(make: Callable[[], bytes], message: str, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    path.write_bytes(make())
    with pytest.raises(StateError, match=message) as caught:
        read_state_file(path)
    assert str(path) in str(caught.value)


SOURCE = {"path": "/data/a", "samples": 3}
MANY_STARTS = {"unit": "steps", "starts": [*range(1000)], "weights": [1] * 10_000}
DAMAGED_MIXES: dict[str, Any] = {
    "no settings": ["read", None, SOURCE, SOURCE],
    "no weights": ["read", {}, SOURCE, SOURCE],
    "text": ["read", {"weights": ["1", "2"]}, SOURCE, SOURCE],
    "number": ["read", {"weights": [1]}, SOURCE, SOURCE],
    "zero": ["read", {"weights": [0, 0]}, SOURCE, SOURCE],
    "below zero": ["read", {"weights": [3, -1]}, SOURCE, SOURCE],
    "huge": ["read", {"weights": [10**4000, 1]}, SOURCE, SOURCE],
    "NaN": ["read", {"weights": [float("nan"), 1]}, SOURCE, SOURCE],
    "no schedule": ["read", {"weights": [1, 1], "schedule": 5}, SOURCE, SOURCE],
    "no starts": ["read", {"schedule": {"unit": "steps", "starts": [], "weights": [1, 1]}}, SOURCE, SOURCE],
    "unit": ["read", {"schedule": {"unit": ["x"], "starts": [0], "weights": [1, 1]}}, SOURCE, SOURCE],
    "unsorted": ["read", {"schedule": {"unit": "steps", "starts": [0, 9, 3], "weights": [1, 1]}}, SOURCE, SOURCE],
    "short": ["read", {"schedule": {"unit": "steps", "starts": [0, 9], "weights": [[1], [1, 2]]}}, SOURCE, SOURCE],
    "other units": [
        "blend",
        {"schedule": {"unit": "steps", "starts": [0, 9], "weights": [[1, 2], 1]}},
        *(["read", {"schedule": {"unit": "samples", "starts": [0, 9], "weights": [[1, 2], 1]}}, SOURCE, SOURCE],) * 2,
    ],
    "many": ["read", {"schedule": MANY_STARTS}, *[SOURCE] * 10_000],
}


@pytest.mark.parametrize("dataset", DAMAGED_MIXES.values(), ids=DAMAGED_MIXES)
def test_a_state_with_damaged_weights_is_described_without_shares(dataset: Any) -> None:
    found = describe_run([RunState(lanes=4, ranks=1, rank=0, seed=0, dataset=dataset)])["datasets"]
    assert len(found) >= 2
    assert {(one["path"], one["share"], one["schedule"]) for one in found} == {("/data/a", None, None)}


def test_hostile_files_are_refused_in_little_memory(tmp_path: Path) -> None:
    names = ("lists in json", "keys in json", "lists", "nested", "memo", "a bomb")
    for number, name in enumerate(names):
        (tmp_path / f"{number}.pt").write_bytes(FILES[name][0]())
    # If the values are made, they take 500 MB.
    script = (
        "import re, sys; from loader import StateError; from loader.training.states import read_state_file\n"
        "for path in sys.argv[1:]:\n"
        "    try: read_state_file(path)\n"
        "    except StateError: print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])"
    )
    paths = sorted(map(str, tmp_path.iterdir()))
    done = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, text=True, check=True)
    peaks = [*map(int, done.stdout.split())]
    assert len(peaks) == len(names)
    assert max(peaks) < 200_000


def test_a_key_that_takes_ages_to_hash_is_not_hashed(tmp_path: Path) -> None:
    (tmp_path / "state.pt").write_bytes(torch_zip(doubled_key()))
    assert read_state_file(tmp_path / "state.pt").states == ()


def test_references_of_many_states_to_one_value_are_counted(tmp_path: Path) -> None:
    import torch

    shared = [0] * 10_000
    state = RunState(lanes=48, ranks=100, rank=0, seed=0).to_plain()
    torch.save([sealed({**state, "rank": rank, "dataset": shared}) for rank in range(100)], tmp_path / "state.pt")
    with pytest.raises(StateError, match=TOO_MANY):
        read_state_file(tmp_path / "state.pt")


def test_tensors_are_not_read_and_torch_is_not_imported(tmp_path: Path) -> None:
    import torch

    model = torch.nn.Linear(3, 3)
    states = [{"loader": RunState(lanes=48, ranks=1, rank=0, seed=0).to_plain(), "model": model.state_dict()}]
    torch.save(states, tmp_path / "state.pt")
    torch.save(states, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    script = (
        "import sys; from loader.training.states import read_state_file\n"
        "for path in sys.argv[1:]: print(read_state_file(path).others, 'torch' in sys.modules)"
    )
    paths = [str(tmp_path / "state.pt"), str(tmp_path / "old.pt")]
    done = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, text=True, check=True)
    assert done.stdout == "('[0].model',) False\n" * 2


# ------------------------------------------------------------------------------------------------- restoring


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("data") / "d")


def new_loader(texts: Path) -> SavableDataLoader[Any]:
    config = WorkerConfig.default_worker_config(num_workers=0)
    return get_loader(
        get_train_dataset(
            texts, batch_size=2, shuffle_buffer_size=None, max_samples_per_sequence=None, worker_config=config
        )
    )


def nested_chain() -> Any:
    chain: Any = ["read", {}]
    for _ in range(5000):
        chain = ["batch", {}, chain]
    return chain


def doubled_chain() -> Any:
    chain: Any = ["read", {}]
    for _ in range(60):
        chain = ["blend", {}, chain, chain]
    return chain


def changed_mix() -> Any:
    return {"mix_changes": [{"batch": 1, "leaves": [{"dataset": nested_chain()}]}]}


HOSTILE: dict[str, Callable[[], dict[str, Any]]] = {
    "nested": lambda: {"dataset": nested_chain()},
    "doubled": lambda: {"dataset": doubled_chain()},
    "mix": changed_mix,
    "seed": lambda: {"seed": 10**100_000},
    "version": lambda: {"version": [0] * COUNT},
    "steps": lambda: {"steps": [1] * COUNT},
}


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_state_is_not_restored(changes: Callable[[], dict[str, Any]], texts: Path) -> None:
    loader = new_loader(texts)
    state = {**loader.save_state_rank(), **changes()}
    restores: list[Callable[[], None]] = [
        lambda: loader.restore_state_rank(state),
        lambda: loader.restore_state_global([state]),
        lambda: loader.load_state_dict(state),
    ]
    for restore in restores:
        with pytest.raises(StateError) as caught:
            restore()
        assert len(str(caught.value)) < 2000
