from __future__ import annotations

from braceexpand import braceexpand
from hypothesis import given, strategies as st

from loader.errors import ConfigError
from loader.format.documents.brace_patterns import compact_names, count_names, expand_pattern

any_name = st.text(max_size=20)
tricky_name = st.text(alphabet="{}\\,.. 019a-é\n", max_size=12)
shard_run = st.builds(
    lambda prefix, suffix, width, numbers: [f"{prefix}{number:0{width}d}{suffix}" for number in numbers],
    tricky_name,
    tricky_name,
    st.integers(0, 4),
    st.builds(range, st.integers(0, 120), st.integers(0, 120)) | st.lists(st.integers(0, 1200), max_size=8),
)
names_lists = st.lists(shard_run | st.lists(any_name | tricky_name, max_size=4), max_size=5).map(
    lambda runs: [name for run in runs for name in run]
)


@given(names_lists)
def test_expansion_gives_back_exactly_the_names_that_were_compacted(names: list[str]) -> None:
    patterns = compact_names(names)
    assert [name for pattern in patterns for name in expand_pattern(pattern)] == names


@given(names_lists)
def test_the_expander_that_megatron_energon_uses_reads_compact_names_too(names: list[str]) -> None:
    assert [name for pattern in compact_names(names) for name in braceexpand(pattern)] == names


@given(st.lists(names_lists, max_size=3).map(lambda lists: [name for names in lists for name in names]))
def test_there_are_never_more_patterns_than_names(names: list[str]) -> None:
    assert len(compact_names(names)) <= len(names)


@given(st.text(alphabet="{}\\,..01239-aZ", max_size=25))
def test_names_are_counted_exactly_before_they_are_made(pattern: str) -> None:
    """count_names(p) == len(expand_pattern(p)), or both refuse p."""
    try:
        count = count_names(pattern)
    except ConfigError:
        return
    if count <= 10_000:
        assert len(expand_pattern(pattern)) == count == len(list(braceexpand(pattern)))
