"""``prepare_join`` matches the samples of the primary with those of the other datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loader.errors import ConfigError, FormatError
from loader.metadataset.joins import (
    keys as packed_keys,
    keys as sample_keys,
    prepare_join as prepare_join_module,
)
from loader.metadataset.joins.files import open_join
from loader.metadataset.joins.prepare_join import MemberReport, prepare_join
from tests.unit.metadataset.joined_data import JoinedData, filling, skipping


@pytest.fixture
def data(tmp_path: Path) -> JoinedData:
    """Primary ``p`` with the keys a to f; ``q`` with all but c and f, and x, in different shards and order."""
    data = JoinedData(tmp_path)
    data.add_dataset("p", {"p0": ["a", "b", "c"], "p1": ["d", "e", "f"]})
    data.add_dataset("q", {"q0": ["e", "x"], "q1": ["d", "b", "a"]})
    return data


def joined(data: JoinedData, *members: dict[str, str] | str) -> list[list[str | None]]:
    plan = data.plan(*members)
    prepare_join(plan)
    return data.keys(plan, open_join(plan))


def test_rows_follow_the_primary_and_find_keys_in_any_shard(data: JoinedData) -> None:
    assert joined(data, "p", skipping("q")) == [
        ["p0.tar/a", "q1.tar/a"],
        ["p0.tar/b", "q1.tar/b"],
        ["p1.tar/d", "q1.tar/d"],
        ["p1.tar/e", "q0.tar/e"],
    ]
    assert joined(data, "q", filling("p")) == [
        ["q0.tar/e", "p1.tar/e"],
        ["q0.tar/x", None],
        ["q1.tar/d", "p1.tar/d"],
        ["q1.tar/b", "p0.tar/b"],
        ["q1.tar/a", "p0.tar/a"],
    ]


def test_rows_follow_the_order_of_the_split(data: JoinedData) -> None:
    data.set_split("p", {"train": ["p1", "p0"]})
    assert [row[0] for row in joined(data, "p", skipping("q"))] == ["p1.tar/d", "p1.tar/e", "p0.tar/a", "p0.tar/b"]


def test_a_report_counts_rows_and_what_does_not_match(data: JoinedData) -> None:
    report = prepare_join(data.plan("p", skipping("q"), filling("q")))
    assert (report.rows, report.skipped) == (4, 2)
    path = str(data.folder / "q")
    assert report.members == (
        MemberReport(path=path, nonmatch="skip", matched=4, missing=2, unused=1),
        MemberReport(path=path, nonmatch="none", matched=4, missing=2, unused=1),
    )
    assert report.place == "splits.train"
    assert data.files() == [f"{report.name}.json", f"{report.name}.npy"]


def test_missing_keys_are_an_error_that_counts_them_and_writes_nothing(data: JoinedData) -> None:
    with pytest.raises(ConfigError) as caught:
        prepare_join(data.plan("p", "q"))
    p, q = data.folder / "p", data.folder / "q"
    assert caught.value.message == f"{q} lacks 2 of the keys of {p}: 'c', 'f'"
    assert caught.value.at == f"{data.folder / 'meta.yaml'}: splits.train"
    assert "nonmatch: skip" in (caught.value.hint or "")
    assert data.files() == []


def test_of_many_missing_keys_the_first_are_named(data: JoinedData) -> None:
    data.add_dataset("many", {"m": [f"{number:03d}" for number in range(100)]})
    with pytest.raises(ConfigError, match=r"lacks 100 of the keys of .*: '000', '001', '002', '003', '004', …\n"):
        prepare_join(data.plan("many", "q"))


def test_all_datasets_that_lack_keys_are_named_at_once(data: JoinedData) -> None:
    data.add_dataset("r", {"r": list("abcdf")})
    with pytest.raises(ConfigError) as caught:
        prepare_join(data.plan("p", "q", "r"))
    assert [line.partition(" lacks ")[2] for line in caught.value.message.splitlines()] == [
        f"2 of the keys of {data.folder / 'p'}: 'c', 'f'",
        f"1 of the keys of {data.folder / 'p'}: 'e'",
    ]


@pytest.mark.parametrize("order", [("q", "r"), ("r", "q")])
def test_what_one_dataset_skips_another_may_lack(data: JoinedData, order: tuple[str, str]) -> None:
    data.add_dataset("r", {"r": list("abde")})
    members: dict[str, dict[str, str] | str] = {"q": skipping("q"), "r": "r"}
    rows = joined(data, "p", *(members[name] for name in order))
    assert [row[0] for row in rows] == ["p0.tar/a", "p0.tar/b", "p1.tar/d", "p1.tar/e"]


def test_excluded_samples_have_no_rows(data: JoinedData) -> None:
    data.set_split("p", {"train": ["p0", "p1"]}, exclude=["p1.tar", "p0.tar/b"])
    data.set_split("q", {"train": ["q0", "q1"]}, exclude=["q1.tar/a"])
    assert joined(data, "p", filling("q")) == [["p0.tar/a", None], ["p0.tar/c", None]]
    report = prepare_join(data.plan("p", filling("q")))
    assert (report.members[0].missing, report.members[0].unused) == (2, 4)


def test_only_the_split_part_counts(data: JoinedData) -> None:
    data.add_dataset(
        "parts", {"s0": ["a", "b"], "s1": ["a", "d"], "s2": ["e"]}, parts={"train": ["s1"], "val": ["s0", "s2"]}
    )
    assert [row[1] for row in joined(data, "p", skipping("parts"))] == ["s1.tar/a", "s1.tar/d"]
    other = {**skipping("parts"), "split_part": "val"}
    assert [row[1] for row in joined(data, "p", other)] == ["s0.tar/a", "s0.tar/b", "s2.tar/e"]
    with pytest.raises(ConfigError, match="no split part 'test'; there are: train, val"):
        joined(data, "p", {**skipping("parts"), "split_part": "test"})


def test_a_key_that_a_member_has_twice_is_an_error_unless_one_is_excluded(data: JoinedData) -> None:
    shards = {"s0": ["x", "a"], "s1": ["b", "a"], "s2": ["x"]}
    data.add_dataset("twice", shards)
    with pytest.raises(ConfigError) as caught:
        joined(data, "p", skipping("twice"))
    assert "twice has the key 'a' twice in its split part 'train': in s0.tar and s1.tar" in caught.value.message
    assert caught.value.hint == "exclude one of them: add 's1.tar/a' to 'exclude' in its split file"
    assert data.files() == []
    data.set_split("twice", {"train": list(shards)}, exclude=["s1.tar/a"])
    # The duplicate of x does not matter: the primary has no such key.
    assert [row[1] for row in joined(data, "p", skipping("twice"))] == ["s0.tar/a", "s1.tar/b"]


def test_a_key_that_the_primary_has_twice_makes_two_rows(data: JoinedData) -> None:
    data.add_dataset("twice", {"s0": ["a"], "s1": ["b", "a"]})
    plan = data.plan("twice", "q")
    report = prepare_join(plan)
    assert data.keys(plan, open_join(plan)) == [
        ["s0.tar/a", "q1.tar/a"],
        ["s1.tar/b", "q1.tar/b"],
        ["s1.tar/a", "q1.tar/a"],
    ]
    assert (report.members[0].matched, report.members[0].unused) == (3, 3)


def test_keys_with_equal_hashes_are_distinguished(data: JoinedData, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("p", "q"):
        (path,) = (data.folder / name / ".nv-meta/index").glob("*/key_hash.npy")
        np.save(path, np.zeros_like(np.load(path)))
        samples = path.with_name("key_sample.npy")
        np.save(samples, np.sort(np.load(samples)))
    monkeypatch.setattr(packed_keys, "hash_keys", lambda _keys, lengths: np.zeros(len(lengths), np.uint64))
    assert [row[1] for row in joined(data, "p", filling("q"))] == [
        "q1.tar/a", "q1.tar/b", None, "q1.tar/d", "q0.tar/e", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "keys", [["é", "日本/語"], ["caf\udce9", "b" * 300, "b" * 299 + "c"], ["a/b/c", "0" * 8, "0" * 7, "0" * 16]]
)
def test_keys_may_be_any_names(data: JoinedData, keys: list[str]) -> None:
    data.add_dataset("one", {"s": [f"k/{key}" for key in keys]})
    data.add_dataset("other", {"t": [f"k/{key}" for key in reversed(keys)] + ["k/x"]})
    assert [row[1] for row in joined(data, "one", "other")] == [f"t.tar/k/{key}" for key in keys]


def test_a_dataset_without_samples_matches_nothing(data: JoinedData) -> None:
    data.set_split("q", {"train": []})
    assert joined(data, "p", skipping("q")) == []
    assert joined(data, "q", "p") == []
    assert [row[1] for row in joined(data, "p", filling("q"))] == [None] * 6


@pytest.mark.parametrize(
    ("column", "value", "name"),
    [("key_sample", 77, "q"), ("key_ends", [9, 2, 3, 4, 5], "q"), ("key_ends", [9, 2, 3, 4, 5, 6], "p")],
)
def test_an_index_that_contradicts_itself_is_an_error(
    data: JoinedData, column: str, value: int | list[int], name: str
) -> None:
    (path,) = (data.folder / name / ".nv-meta/index").glob(f"*/{column}.npy")
    values = np.load(path)
    values[:] = value
    np.save(path, values)
    with pytest.raises(FormatError, match="the columns of the index contradict each other"):
        prepare_join(data.plan("p", filling("q")))
    assert data.files() == []


def test_progress_counts_every_sample_in_small_steps(data: JoinedData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_join_module, "_MIN_BATCH", 2)
    monkeypatch.setattr(prepare_join_module, "_MAX_BATCH", 2)
    monkeypatch.setattr(prepare_join_module, "_SAMPLES_PER_READ", 2)
    monkeypatch.setattr(sample_keys, "_ROWS_PER_READ", 2)
    data.set_split("p", {"train": ["p0", "p1"]}, exclude=["p0.tar"])
    steps: list[tuple[int, int]] = []
    plan = data.plan("p", filling("q"))
    prepare_join(plan, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(2, 3), (3, 3)]
    assert [row[1] for row in data.keys(plan, open_join(plan))] == ["q1.tar/d", "q0.tar/e", None]
