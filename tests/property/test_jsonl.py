from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, strategies as st

from loader.errors import FormatError
from loader.format.jsonl import lines as jsonl_lines
from loader.format.jsonl.index import JsonlReader, prepare_jsonl
from loader.storage import LocalStorage

value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
line = st.builds(
    lambda document, ascii_only: json.dumps(document, ensure_ascii=ascii_only),
    st.dictionaries(st.text('ab{}\n"é\u2028', max_size=4), value, max_size=3),
    st.booleans(),
)
blank = st.sampled_from(["", " ", "\t", "\r"])
end = st.sampled_from(["\n", "\r\n", " \n"])


@given(st.lists(st.tuples(line | blank, end), max_size=12), line, blank, st.integers(1, 40))
def test_every_object_comes_back_byte_for_byte_however_the_file_is_cut_into_chunks(
    lines: list[tuple[str, str]], first: str, last: str, chunk_bytes: int
) -> None:
    text = "".join(content + ending for content, ending in [(first, "\n"), *lines]) + last
    expected = [first, *(content for content, _ in lines if content.strip())]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "x.jsonl").write_text(text, encoding="utf-8", newline="")
        storage = LocalStorage(folder)
        before, jsonl_lines._CHUNK_BYTES = jsonl_lines._CHUNK_BYTES, chunk_bytes
        try:
            prepare_jsonl(storage, "x.jsonl")
        finally:
            jsonl_lines._CHUNK_BYTES = before
        with JsonlReader(storage, "x.jsonl") as reader:
            assert [reader.read_line(index).decode() for index in range(len(reader))] == expected


@given(st.binary(max_size=40) | st.text('{}[]"\\:,1 \n\r', max_size=30).map(str.encode), st.integers(1, 20))
def test_a_file_is_accepted_only_if_python_finds_one_object_in_each_line(data: bytes, chunk_bytes: int) -> None:
    def is_object(text: bytes) -> bool:
        try:
            return isinstance(json.loads(text.decode()), dict)
        except ValueError:
            return False

    texts = [text.strip() for text in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    good = any(texts) and all(is_object(text) for text in texts if text)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "x.jsonl").write_bytes(data)
        before, jsonl_lines._CHUNK_BYTES = jsonl_lines._CHUNK_BYTES, chunk_bytes
        try:
            index = prepare_jsonl(LocalStorage(folder), "x.jsonl")
        except FormatError:
            assert not good
        else:
            assert good
            assert len(index) == sum(map(bool, texts))
        finally:
            jsonl_lines._CHUNK_BYTES = before
