"""OpenSources: index numbers of samples of many sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from loader.pipeline.reading.sample_chunk import OpenSources


@dataclass
class Runs:
    """A source of runs of samples that are neighbours in the index."""

    runs: list[range]
    excluded: Any
    filter: None = None

    @property
    def selection(self) -> Runs:
        return self

    @property
    def turns(self) -> Runs:
        return self

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def numbers(self) -> list[int]:
        return [number for run in self.runs for number in run]

    @property
    def ranges(self) -> tuple[Any, Any]:
        lengths = [len(run) for run in self.runs]
        return np.cumsum([0, *lengths[:-1]]), np.array([run.start for run in self.runs])


@st.composite
def sources(draw: Callable[..., Any]) -> Runs:
    runs = draw(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 9)), min_size=1, max_size=4))
    found = [range(start, start + length) for start, length in runs]
    some = [number for run in found for number in run]
    excluded = draw(st.lists(st.sampled_from(some) | st.integers(0, 2000), unique=True, max_size=5))
    return Runs(found, np.array(sorted(excluded), dtype=np.int64))


@given(st.lists(sources(), min_size=1, max_size=5))
def test_each_sample_is_found_as_in_its_own_source(some: list[Runs]) -> None:
    table = OpenSources(some)  # type: ignore[arg-type] # has the attributes that the table reads
    pairs = [(number, sample) for number, source in enumerate(some) for sample in range(len(source))][::-1]
    source, sample = np.array(pairs).T
    index = table.index_numbers(source, sample)
    assert index.tolist() == [some[number].numbers[place] for number, place in pairs]
    expected = [some[number].numbers[place] in some[number].excluded.tolist() for number, place in pairs]
    found = table.excluded(source, index)
    assert (found.tolist() if found is not None else [False] * len(pairs)) == expected
