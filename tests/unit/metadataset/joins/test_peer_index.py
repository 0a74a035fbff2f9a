"""Join indexes of megatron-energon: written where they can express a join, and used only if they are valid."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loader.dataset.opening import folder_at
from loader.errors import ConfigError
from loader.metadataset.joins.files import open_join
from loader.metadataset.joins.prepare_metadataset import prepare_metadataset
from tests.unit.metadataset.joined_data import JoinedData, filling, skipping

KEYS = [f"{number:02d}" for number in range(12)]
Q_KEYS = [key for key in reversed(KEYS) if key != "07"]
P, Q = {"p0": KEYS[:5], "p1": KEYS[5:]}, {"q0": Q_KEYS[:5], "q1": [*Q_KEYS[5:], "99"]}


@pytest.fixture
def data(tmp_path: Path) -> JoinedData:
    data = JoinedData(tmp_path)
    data.add_dataset("p", P)
    data.add_dataset("q", Q)
    return data


def write_peer_index(data: JoinedData, path: Path) -> Path:
    """Prepare a join, and keep only the file of megatron-energon."""
    prepare_metadataset(path, compat=True)
    shutil.rmtree(f"{path}.joins")
    (file,) = Path(f"{path}.cache").iterdir()
    return file


def places(file: Path) -> np.ndarray:
    return np.frombuffer(file.read_bytes(), "<i8", offset=16).reshape(-1, 2, 3)


def test_the_bytes_of_a_file(data: JoinedData) -> None:
    path = data.write_join("p", skipping("q"))
    file = write_peer_index(data, path)
    uuids = [folder_at(data.folder / name).index.uuid for name in "pq"]
    hashed = "".join(
        f"\0uuid={uuid}\0excludes=\0nonmatch={nonmatch}\0"
        for uuid, nonmatch in zip(uuids, ("error", "skip"), strict=True)
    )
    assert file.name == f"join_index_{hashlib.sha256(hashed.encode()).hexdigest()}.bin"
    assert file.read_bytes()[:16] == b"JIDX0001" + bytes([2, 0, 0, 0, 0, 0, 0, 0])
    rows = places(file)
    assert len(rows) == 11
    assert rows[0].tolist() == [[0, 0, 1024], [1, 5 * 1024, 1024]]  # key 00: the sixth sample of q1


@pytest.mark.parametrize("other", [skipping("q"), filling("q")], ids=["skip", "none"])
@pytest.mark.parametrize("exclude", [[], ["q0.tar/10"]], ids=["", "with an excluded sample"])
def test_its_rows_are_those_of_prepare(data: JoinedData, other: dict[str, str], exclude: list[str]) -> None:
    data.set_split("q", {"train": list(Q)}, exclude=exclude)
    plan = data.plan("p", other)
    prepare_metadataset(plan.file, compat=True)
    expected = np.array(open_join(plan))
    shutil.rmtree(f"{plan.file}.joins")
    assert open_join(plan).tolist() == expected.tolist()
    assert len(expected) == (12 if other["nonmatch"] == "none" else 11 - len(exclude))


def test_rows_in_another_order_are_sorted(data: JoinedData) -> None:
    plan = data.plan("p", skipping("q"))
    file = write_peer_index(data, Path(plan.file))
    expected = open_join(plan).tolist()
    file.write_bytes(file.read_bytes()[:16] + places(file)[::-1].tobytes())
    assert open_join(plan).tolist() == expected


def _without_last_row(rows: np.ndarray) -> np.ndarray:
    return rows[:-1]


def _with_swapped_partners(rows: np.ndarray) -> np.ndarray:
    changed = rows.copy()
    changed[[0, 1], 1] = rows[[1, 0], 1]
    return changed


def _with_unknown_place(rows: np.ndarray) -> np.ndarray:
    changed = rows.copy()
    changed[3, 1, 1] += 512
    return changed


def _with_missing_partner(rows: np.ndarray) -> np.ndarray:
    changed = rows.copy()
    changed[2, 1] = -1
    return changed


def _with_a_row_twice(rows: np.ndarray) -> np.ndarray:
    return np.concatenate([rows, rows[-1:]])


@pytest.mark.parametrize(
    "change",
    [_without_last_row, _with_swapped_partners, _with_unknown_place, _with_missing_partner, _with_a_row_twice],
)
@pytest.mark.parametrize("other", [skipping("q"), filling("q")], ids=["skip", "none"])
def test_invalid_rows_are_not_used(
    data: JoinedData, other: dict[str, str], change: Callable[[np.ndarray], np.ndarray]
) -> None:
    plan = data.plan("p", other)
    file = write_peer_index(data, Path(plan.file))
    file.write_bytes(file.read_bytes()[:16] + change(places(file)).tobytes())
    with pytest.raises(ConfigError, match="this join is not prepared"):
        open_join(plan)


def test_a_file_of_another_split_part_is_not_used(data: JoinedData) -> None:
    """The name of the file does not depend on the split part."""
    data.set_split("p", {"train": ["p0"], "val": ["p1"]})
    write_peer_index(data, data.write_join("p", skipping("q")))
    data.set_split("p", {"train": ["p1"], "val": ["p0"]})
    with pytest.raises(ConfigError, match="this join is not prepared"):
        open_join(data.plan("p", skipping("q")))


@pytest.mark.parametrize("content", [b"", b"JIDX0002" + bytes(8), b"JIDX0001\2\0\0\0\0\0\0\0short"])
def test_damaged_files_are_not_used(data: JoinedData, content: bytes) -> None:
    plan = data.plan("p", skipping("q"))
    write_peer_index(data, Path(plan.file)).write_bytes(content)
    with pytest.raises(ConfigError, match="this join is not prepared"):
        open_join(plan)


@pytest.mark.parametrize("ending", ["npy", "json"])
def test_it_does_not_replace_damaged_rows_in_silence(data: JoinedData, ending: str) -> None:
    plan = data.plan("p", filling("q"))
    prepare_metadataset(plan.file)
    (file,) = Path(f"{plan.file}.joins").glob(f"*.{ending}")
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(ConfigError, match="rows of this join are damaged"):
        open_join(plan)


def test_rows_of_this_library_are_used_where_both_disagree(data: JoinedData) -> None:
    plan = data.plan("p", filling("q"))
    prepare_metadataset(plan.file)
    expected = open_join(plan).tolist()
    (file,) = Path(f"{plan.file}.cache").iterdir()
    file.write_bytes(file.read_bytes()[:16] + _with_missing_partner(places(file)).tobytes())
    assert open_join(plan).tolist() == expected


def test_the_cache_folder_holds_the_files_of_the_newest_state(data: JoinedData) -> None:
    path = data.write_join("p", skipping("q"))
    prepare_metadataset(path)
    cache = Path(f"{path}.cache")
    (first,) = cache.iterdir()
    (cache / "notes.txt").write_text("of the user")
    # A state that no file can express, or one without a file, removes nothing.
    data.set_split("q", {"train": list(Q)}, exclude=["q0.tar/10", "q0.tar/11"])
    prepare_metadataset(path)
    data.set_split("q", {"train": list(Q)}, exclude=["q0.tar/10"])
    prepare_metadataset(path, compat=False)
    assert {*cache.iterdir()} == {first, cache / "notes.txt"}
    # The next one that has a file replaces it.
    prepare_metadataset(path)
    (second,) = {*cache.iterdir()} - {cache / "notes.txt"}
    assert second != first


def test_a_join_that_the_file_cannot_express_is_refused(data: JoinedData) -> None:
    data.set_split("q", {"train": list(Q)}, exclude=["q0.tar/10", "q0.tar/11"])
    with pytest.raises(ConfigError, match="a dataset excludes several samples"):
        prepare_metadataset(data.write_join("p", skipping("q")), compat=True)
    (report,) = prepare_metadataset(data.write_join("p", skipping("q")), compat=None)
    assert report.rows
