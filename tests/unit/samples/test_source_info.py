"""Read the sources of samples, and add to them."""

from __future__ import annotations

from typing import Any

import pytest

from loader import SourceInfo, TextSample
from loader.samples.source_info import add_source_info, get_source_info

ONE, OTHER = (SourceInfo("/data", number, "s.tar", (f"{number}.txt",)) for number in range(2))


@pytest.mark.parametrize("sample", [{}, TextSample(__key__="0", text="a cat")], ids=["dict", "dataclass"])
def test_sources_are_appended(sample: Any) -> None:
    assert get_source_info(sample) is None
    assert add_source_info(sample, ONE) is sample
    add_source_info(sample, OTHER, ONE)
    assert get_source_info(sample) == [ONE, OTHER, ONE]


def test_values_without_sources_return_none() -> None:
    assert get_source_info(3) is None
    assert get_source_info([3, {}]) is None
    assert add_source_info(3, ONE) == 3


def test_sources_of_a_list_are_those_of_its_samples() -> None:
    assert get_source_info([{"__sources__": (ONE,)}, {}, {"__sources__": (OTHER, ONE)}]) == [ONE, OTHER, ONE]
