"""Similarities, neighbours and groups of near-duplicates, against all pairs compared one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from loader.arrays import Components
from loader.errors import ConfigError
from loader.format.columns.column import Column, VectorColumn
from loader.format.columns.column_record import ColumnRecord
from loader.similarity import (
    candidates as candidates_module,
    groups as groups_module,
    near_duplicate_groups,
    neighbours,
)
from loader.similarity.vectors import vectors_of


def column(values: npt.NDArray[Any], *, metric: str = "", model: str = "", valid: Any = None) -> Column:
    record = ColumnRecord(samples=len(values), shards="", length=values.shape[1], metric=metric, model=model)
    return VectorColumn("vectors", record, values, valid)


def unit_vectors(samples: int, length: int, *, seed: int = 0, copies: float = 0.3) -> npt.NDArray[np.float16]:
    """Vectors around a common direction, some of which are others with noise."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((samples, length)) + 1.5 * random.standard_normal(length)
    copied = random.integers(samples, size=int(samples * copies))
    vectors[random.permutation(samples)[: len(copied)]] = vectors[copied] + 0.5 * random.standard_normal(
        (len(copied), length)
    )
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float16)


def picture_hashes(samples: int) -> npt.NDArray[np.uint8]:
    """Two hashes of 143 bits for each sample; one hash of some samples is another's with a few other bits."""
    random = np.random.default_rng(1)
    bits = random.integers(2, size=(samples, 2, 143), dtype=np.uint8)
    for sample in range(1, samples, 3):
        bits[sample, sample % 2] = bits[random.integers(sample), random.integers(2)]
        bits[sample, sample % 2, random.permutation(143)[: random.integers(20, 45)]] ^= 1
    return np.packbits(bits, axis=2).reshape(samples, 36)


def min_hashes(samples: int) -> npt.NDArray[np.uint32]:
    random = np.random.default_rng(2)
    hashes = random.integers(1 << 32, size=(samples, 128), dtype=np.uint32)
    for sample in range(1, samples, 2):
        kept = random.permutation(128)[: random.integers(60, 128)]
        hashes[sample, kept] = hashes[random.integers(sample), kept]
    return hashes


def similarity(one: npt.NDArray[Any], other: npt.NDArray[Any], kind: str) -> float:
    if kind == "cosine":
        a, b = one.astype(np.float64), other.astype(np.float64)
        return max(0.0, float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
    if kind == "jaccard":
        return float((one == other).mean())
    bits = [np.unpackbits(half)[:143] for whole in (one, other) for half in np.split(whole, 2)]
    return 1 - min(int((a != b).sum()) for a in bits[:2] for b in bits[2:]) / 143


def groups_by_hand(
    column_: Column, kind: str, threshold: float, chosen: list[int], *, chains: bool = False
) -> list[list[int]]:
    """Put each sample into the first group whose first sample is near it, or else begin one; or join chains."""

    def near(one: int, other: int) -> bool:
        return similarity(column_.values[one], column_.values[other], kind) >= threshold - 1e-9

    groups: list[list[int]] = []
    for sample in chosen:
        joined = [group for group in groups if any(near(sample, each) for each in (group if chains else group[:1]))]
        if not joined:
            groups.append([sample])
        elif chains:
            groups = [group for group in groups if group not in joined]
            groups.append(sorted([*(each for group in joined for each in group), sample]))
        else:
            joined[0].append(sample)
    return sorted((some for some in groups if len(some) > 1), key=lambda some: (-len(some), some[0]))


CASES: dict[str, tuple[Callable[[], Column], tuple[float, ...]]] = {
    "cosine": (lambda: column(unit_vectors(150, 24)), (0.8, 0.9, 0.97)),
    "hamming": (lambda: column(picture_hashes(150), metric="hamming", model="phash"), (0.75, 0.78, 0.85)),
    "jaccard": (lambda: column(min_hashes(150), metric="jaccard"), (0.5, 0.8, 1.0)),
}


@pytest.mark.parametrize("chains", [False, True])
@pytest.mark.parametrize("kind", CASES)
@pytest.mark.sampled(3)
def test_groups_are_those_of_all_pairs(kind: str, chains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates_module, "_BLOCK", 64)
    build, thresholds = CASES[kind]
    vectors = build()
    for threshold in thresholds:
        groups = near_duplicate_groups(vectors, threshold, chains=chains)
        expected = groups_by_hand(vectors, kind, threshold, list(range(150)), chains=chains)
        assert expected or threshold == 1
        assert [group.tolist() for group in groups.groups] == expected
        assert groups.is_exact
        assert groups.copies.tolist() == sorted(sample for group in expected for sample in group[1:])


def test_a_sample_near_a_copy_alone_is_kept_and_chains_join_it() -> None:
    """Each vector is near its neighbours alone; the copies of a group are near what is kept of it."""
    angles = np.arange(16) * np.arccos(0.95) * 0.6
    vectors = column(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32))
    assert [group.tolist() for group in near_duplicate_groups(vectors, chains=True).groups] == [[*range(16)]]
    assert near_duplicate_groups(vectors).copies.tolist() == [*range(1, 16, 2)]


def test_samples_without_a_vector_and_others_than_the_chosen_take_no_part() -> None:
    values = unit_vectors(200, 16)
    valid = np.random.default_rng(3).random(200) < 0.7
    values[~valid] = np.nan
    vectors = column(values, valid=valid)
    chosen = np.arange(0, 200, 2)
    known = [sample for sample in chosen.tolist() if valid[sample]]
    groups = near_duplicate_groups(vectors, 0.85, chosen=chosen)
    assert [group.tolist() for group in groups.groups] == groups_by_hand(vectors, "cosine", 0.85, known)
    assert groups.samples == len(known)
    first = known[0]
    nearest = neighbours(vectors, values[first], 500, chosen=chosen)
    assert sorted(each.sample for each in nearest) == known
    assert nearest[0].sample == first


@pytest.mark.parametrize("kind", CASES)
def test_neighbours_are_the_most_similar_samples_in_order(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loader.similarity.nearest._BLOCK_BYTES", 2000)
    monkeypatch.setattr("loader.similarity.nearest._HASHES_AT_ONCE", 50)
    vectors = CASES[kind][0]()
    for query in (0, 17, 149):
        scores = [similarity(vectors.values[query], other, kind) for other in vectors.values]
        expected = sorted(range(150), key=lambda sample: (-round(scores[sample], 12), sample))[:20]
        nearest = neighbours(vectors, vectors.values[query], 20)
        assert [each.similarity for each in nearest] == pytest.approx([scores[sample] for sample in expected])
        assert {each.sample for each in nearest if each.similarity > nearest[-1].similarity + 1e-9} <= {*expected}
        assert nearest[0].sample == query


def test_blocks_choose_short_heads_and_miss_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 256 dimensions, a few suffice to exclude most pairs; the groups stay as those of whole vectors."""
    vectors = column(unit_vectors(3000, 256))
    heads = candidates_module.Heads.chosen(vectors_of(vectors), np.arange(3000), 0.9)
    assert heads.rotation is not None
    assert heads.rotation.shape[1] < 256
    short = near_duplicate_groups(vectors, 0.9)
    whole = candidates_module.Heads(vectors_of(vectors), None)
    monkeypatch.setattr(candidates_module.Heads, "chosen", lambda *_: whole)
    assert [group.tolist() for group in near_duplicate_groups(vectors, 0.9).groups] == [
        group.tolist() for group in short.groups
    ]


@pytest.mark.parametrize("kind", ["cosine", "hamming"])
@pytest.mark.sampled(2)
def test_cells_have_nearly_all_pairs_and_always_the_same(kind: str) -> None:
    values = unit_vectors(2000, 32, copies=0.1) if kind == "cosine" else picture_hashes(2000)
    vectors = column(values, model="phash")
    exact = near_duplicate_groups(vectors, exact=True)
    of_cells = near_duplicate_groups(vectors, exact=False)
    again = near_duplicate_groups(vectors, exact=False)
    assert [group.tolist() for group in of_cells.groups] == [group.tolist() for group in again.groups]
    assert not of_cells.is_exact
    assert len(of_cells.copies) >= 0.98 * len(exact.copies) > 0
    assert {*of_cells.copies.tolist()} <= {*exact.copies.tolist()}  # candidates are compared exactly


def test_cells_hold_a_small_part_of_the_pairs() -> None:
    vectors = vectors_of(column(unit_vectors(4000, 32)))
    rows = np.arange(4000)
    compared = 0

    def search(left: Any, right: Any) -> Any:
        nonlocal compared
        compared += len(left) * len(right)
        return np.empty(0, np.int64), np.empty(0, np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates_module, "_search_on", lambda _, parts, *__: lambda i, j, _: search(parts[i], parts[j]))
        assert not [*candidates_module.pairs_of_cells(vectors, rows, 0.95, Components(4000))]
    assert 0 < compared < 4000**2 / 10


@pytest.mark.parametrize("exact", [True, False])
def test_many_equal_vectors_are_joined_without_all_their_pairs(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates_module, "_BLOCK", 128)
    values = np.concatenate([np.repeat(unit_vectors(1, 32), 1500, axis=0), unit_vectors(500, 32)])
    vectors = vectors_of(column(values))
    components = Components(len(values))
    search = candidates_module.pairs_of_blocks if exact else candidates_module.pairs_of_cells
    pairs = 0
    for left, right in search(vectors, np.arange(len(values)), 0.95, components):
        components.join(left, right)
        pairs += len(left)
    assert next(len(group) for group in components.groups()) >= 1500
    assert pairs < 1500**2 / 3


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_few_vectors_and_vectors_of_zeros_have_cells(count: int) -> None:
    values = np.zeros((count, 4), np.float32)
    values[count // 2 :, 0] = 1
    groups = near_duplicate_groups(column(values), exact=False).groups
    assert [group.tolist() for group in groups] == ([[*range(count // 2, count)]] if count > 2 else [])


def test_products_of_torch_find_the_same_pairs_as_of_numpy() -> None:
    vectors = vectors_of(column(unit_vectors(300, 16)))
    rows, apart = np.arange(300), Components(300)
    in_numpy = [*candidates_module.pairs_of_blocks(vectors, rows, 0.9, apart)]
    in_torch = [*candidates_module.pairs_of_blocks(vectors, rows, 0.9, apart, device="cpu")]
    assert sorted(zip(*map(np.ndarray.tolist, in_numpy[0]), strict=True)) == sorted(
        zip(*map(np.ndarray.tolist, in_torch[0]), strict=True)
    )


def test_large_groups_of_equal_hashes_are_joined_without_all_their_pairs() -> None:
    hashes = np.repeat(min_hashes(3)[:1], 20_000, axis=0)
    components = Components(len(hashes))
    vectors = vectors_of(column(hashes, metric="jaccard"))
    pairs = 0
    for left, right in candidates_module.pairs_of_bands(vectors, np.arange(len(hashes)), 0.8, components):
        components.join(left, right)
        pairs += len(left)
    assert pairs < 40 * len(hashes)
    assert [len(group) for group in components.groups()] == [20_000]


def test_unsuitable_columns_and_thresholds_are_refused() -> None:
    numbers = VectorColumn("width", ColumnRecord(samples=3, shards=""), np.arange(3))
    with pytest.raises(ConfigError, match="has no vectors"):
        near_duplicate_groups(numbers)
    with pytest.raises(ConfigError, match="another type for the metric"):
        near_duplicate_groups(column(unit_vectors(3, 4), metric="hamming"))
    with pytest.raises(ConfigError, match="expected a similarity"):
        near_duplicate_groups(column(unit_vectors(3, 4)), 0)
    with pytest.raises(ConfigError, match=r"expected a vector of shape \(4,\)"):
        neighbours(column(unit_vectors(3, 4)), np.zeros(5))


def test_no_samples_have_no_groups() -> None:
    for kind in CASES:
        vectors = CASES[kind][0]()
        assert not near_duplicate_groups(vectors, chosen=np.empty(0, np.int64)).groups
        assert neighbours(vectors, vectors.values[0], chosen=np.empty(0, np.int64)) == []


def test_more_samples_are_compared_in_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = column(unit_vectors(300, 16))
    assert near_duplicate_groups(vectors).is_exact
    monkeypatch.setattr(groups_module, "EXACT_SAMPLES", 100)
    assert not near_duplicate_groups(vectors).is_exact
