"""A join equals a look-up of every key in a dict."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from loader.errors import ConfigError
from loader.format.index import dataset_index, shard_index, small_shards
from loader.format.index.key_hash import hash_key, hash_keys
from loader.metadataset.joins import keys as packed_keys, keys as sample_keys, prepare_join
from loader.metadataset.joins.files import open_join
from tests.unit.metadataset.joined_data import JoinedData

# Keys are compared in words of eight bytes: use shorter, equally long and longer keys that differ at either end.
LONG = "a" * 15
KEYS = ["a", "b", "c", "é", "d/a", "aaaaaaaa", "aaaaaaab", "baaaaaaa", "aaaaaaaaa", f"{LONG}a", f"{LONG}b", f"b{LONG}"]
Dataset = tuple[dict[str, list[str]], list[str], list[str]]  # keys of shards, shards of the part, exclusions

SHARDS = ("s0", "s1", "s2")
# No shrinking: failing examples are small already, and each attempt writes files, so shrinking takes minutes.
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)


@st.composite
def datasets(draw: st.DrawFn, *, unique: bool) -> Dataset:
    """Draw the keys of shards, the shards of the split part, and the exclusions.

    With ``unique``, an example in six still has one duplicate key.
    """
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True, min_size=6))
    shards: dict[str, list[str]] = {shard: [] for shard in SHARDS}
    for key in keys:
        for shard in draw(st.lists(st.sampled_from(SHARDS), unique=True, min_size=1, max_size=1 if unique else 2)):
            shards[shard].append(key)
    if unique and draw(st.sampled_from([False] * 5 + [True])):
        shards["s2"] = [*(key for key in shards["s2"] if key != keys[0]), keys[0]]
    part = draw(st.permutations(SHARDS))[: draw(st.sampled_from([3, 3, 3, 2, 1, 0]))]
    all_names = [f"{shard}.tar/{key}" for shard, own in shards.items() for key in own]
    exclude = draw(st.lists(st.sampled_from(all_names), unique=True, max_size=3))
    return shards, part, exclude + draw(st.sampled_from([[], [], [], ["s1.tar"]]))


def included_samples(dataset: Dataset) -> list[tuple[str, str]]:
    """Return the included samples of a dataset in order, as key and full key."""
    shards, part, exclude = dataset
    samples = [(key, f"{shard}.tar/{key}") for shard in part if f"{shard}.tar" not in exclude for key in shards[shard]]
    return [(key, name) for key, name in samples if name not in exclude]


def plain_join(
    primary: Dataset,
    members: list[tuple[Dataset, str]],
) -> list[list[str | None]] | None:
    """Return the rows of a join by dicts; None if it is an error."""
    tables = []
    wanted = {key for key, _ in included_samples(primary)}
    for dataset, _ in members:
        names = included_samples(dataset)
        if any([key for key, _ in names].count(key) > 1 for key in wanted):
            return None
        tables.append(dict(names))
    rows: list[list[str | None]] = []
    for key, name in included_samples(primary):
        found = [table.get(key) for table in tables]
        kinds = {kind for value, (_, kind) in zip(found, members, strict=True) if value is None}
        if "skip" in kinds:
            continue
        if "error" in kinds:
            return None
        rows.append([name, *found])
    return rows


def few_hashes(_keys: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hash many keys to the same value."""
    return lengths.astype(np.uint64) % np.uint64(2)


def few_hash(key: bytes) -> int:
    return len(key) % 2


@settings(max_examples=20, phases=QUICK, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    datasets(unique=False),
    st.lists(
        st.tuples(datasets(unique=True), st.sampled_from(["skip", "none", "error"])),
        min_size=1,
        max_size=2,
    ),
    st.integers(1, 7),
    st.booleans(),
)
def test_a_join_is_what_a_dict_gives(
    primary: Dataset,
    members: list[tuple[Dataset, str]],
    at_once: int,
    hashes_collide: bool,
) -> None:
    many, one = (few_hashes, few_hash) if hashes_collide else (hash_keys, hash_key)
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(shard_index, "hash_keys", many),
        patch.object(small_shards, "hash_keys", many),
        patch.object(packed_keys, "hash_keys", many),
        patch.object(dataset_index, "hash_key", one),
    ):
        data = JoinedData(Path(folder))
        for number, (shards, part, exclude) in enumerate([primary, *(dataset for dataset, _ in members)]):
            filled = {shard: keys for shard, keys in shards.items() if keys}
            data.add_dataset(str(number), filled, parts={"train": [s for s in part if s in filled]}, exclude=exclude)
        plan = data.plan(
            "0", *({"path": str(number), "nonmatch": kind} for number, (_, kind) in enumerate(members, start=1))
        )
        with (
            patch.object(prepare_join, "_MIN_BATCH", at_once),
            patch.object(prepare_join, "_MAX_BATCH", at_once),
            patch.object(prepare_join, "_SAMPLES_PER_READ", at_once),
            patch.object(sample_keys, "_ROWS_PER_READ", at_once),
            patch.object(packed_keys, "_KEYS_PER_BATCH", at_once),
        ):
            expected = plain_join(primary, members)
            try:
                report = prepare_join.prepare_join(plan)
            except ConfigError:
                assert expected is None
                return
        assert data.keys(plan, open_join(plan)) == expected
        assert expected is not None
        assert report.rows == len(expected)
        for (dataset, _), member in zip(members, report.members, strict=True):
            wanted, own = [key for key, _ in included_samples(primary)], [key for key, _ in included_samples(dataset)]
            assert member.matched == sum(key in own for key in wanted)
            assert member.missing == len(wanted) - member.matched
            assert member.unused == sum(key not in wanted for key in own)
