"""Renamed headers contain the new name, and the contents do not change, for any names."""

from __future__ import annotations

import io
import tarfile
from typing import Literal

from hypothesis import given, strategies as st

from loader.prepare.fix_duplicates import rename_headers

# Names in archives contain no NUL, and names of files do not end in a slash.
name = st.binary(min_size=1, max_size=130).filter(lambda text: b"\0" not in text and not text.endswith(b"/"))
long_name = st.builds(lambda text, times: (text + b"/") * times + text, name, st.integers(0, 5))
FORMATS: list[Literal[1, 2]] = [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
form = st.sampled_from(FORMATS)


@given(long_name, long_name, form, st.binary(max_size=600))
def test_python_reads_the_new_name_and_the_same_contents_behind_renamed_headers(
    old: bytes, new: bytes, kind: Literal[1, 2], data: bytes
) -> None:
    info = tarfile.TarInfo(old.decode("utf-8", "surrogateescape"))
    info.size = len(data)
    headers = info.tobuf(kind, "utf-8", "surrogateescape")
    archive = rename_headers(headers, new, shard="s", offset=0) + data.ljust(-(-len(data) // 512) * 512, b"\0")
    with tarfile.open(fileobj=io.BytesIO(archive + bytes(1024)), encoding="utf-8", errors="surrogateescape") as tar:
        (member,) = tar.getmembers()
        contents = tar.extractfile(member)
        assert contents is not None
        assert contents.read() == data
    assert member.name.encode("utf-8", "surrogateescape") == new
