"""The fast path of crude samples builds the same samples as the general path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, strategies as st

from loader import SampleDecoder
from loader.errors import EnergonError
from loader.samples.building.dataset_code import DatasetCode
from loader.samples.building.sample_builder import RawSample, SampleBuilder, sources_of
from tests.elastic_runs import fingerprint

NAMES = st.sampled_from(["json", "txt", "cls", "bin", "a.json", "seg.txt", "png", "pyd", "npy", "tenbin"])
BYTES = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([b"{}", b'{"a": [1, 2.5, null]}', b"7", b"text", b"\xff\xfe", b"[1", b"NaN", b""]),
)
LABELS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 3), max_size=3)


def outcome(build: Callable[[], Any]) -> tuple[Any, ...]:
    """Return the bytes of a sample, or the fields of its error."""
    try:
        sample = build()
    except EnergonError as error:
        return type(error), str(error), vars(error), type(error.__cause__)
    return type(sample), list(sample), fingerprint(dict(sample))


@given(
    parts=st.dictionaries(NAMES, BYTES, max_size=4),
    decoder=st.sampled_from([None, SampleDecoder(), SampleDecoder(image_decode="torchrgb8", guess_content=True)]),
    labels=LABELS,
    own=LABELS,
)
def test_both_paths_build_the_same_sample_or_raise_the_same_error(
    parts: dict[str, bytes], decoder: SampleDecoder | None, labels: dict[str, int], own: dict[str, int]
) -> None:
    builder = SampleBuilder(None, DatasetCode(Path(), trust_code=False), decoder=decoder)
    builder.subflavors = own
    assert builder._is_plain
    (name, content), *others = parts.items() or [(None, parts)]
    raw = RawSample(0, 7, "s.tar", "k", None, parts) if others else RawSample(0, 7, "s.tar", "k", name, content)
    quick = outcome(lambda: builder.raw_builder("/ds", labels)(raw, ("read", 1)))
    builder._is_plain = False
    assert quick == outcome(lambda: builder.raw_builder("/ds", labels)(raw, ("read", 1)))
    assert quick == outcome(
        lambda: builder.build(
            parts, key="s.tar/k", restore_key=("read", 1), subflavors=labels, sources=sources_of(raw, "/ds")
        )
    )
