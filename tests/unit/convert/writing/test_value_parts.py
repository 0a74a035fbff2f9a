"""Values of other formats become parts that decode to the same values."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import torch
from PIL import Image

from loader.convert.sources.foreign_chunks import part_of_value
from loader.errors import SampleError


def encoded(kind: str) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (4, 4)).save(data, kind)
    return data.getvalue()


def test_names_get_an_extension_unless_they_are_one() -> None:
    assert part_of_value("image", encoded("JPEG"))[0] == "image.jpg"
    assert part_of_value("jpg", encoded("JPEG"))[0] == "jpg"
    assert part_of_value("a/b c", "text") == ("a_b_c.txt", b"text")
    assert part_of_value("data", b"\x00\x01") == ("data.bin", b"\x00\x01")
    assert part_of_value("label", np.int64(3)) == ("label.cls", b"3")


def test_arrays_and_tensors_are_kept() -> None:
    values = np.arange(6, dtype=np.int16).reshape(2, 3)
    for value in (values, torch.from_numpy(values)):
        name, data = part_of_value("tokens", value)
        assert name == "tokens.npy"
        assert np.array_equal(np.load(io.BytesIO(data)), values)


def test_other_values_are_json() -> None:
    name, data = part_of_value("meta", {"a": [1, None], "b": np.float32(0.5), "c": np.array([1, 2])})
    assert (name, json.loads(data)) == ("meta.json", {"a": [1, None], "b": 0.5, "c": [1, 2]})
    with pytest.raises(SampleError, match="cannot be written"):
        part_of_value("meta", {"a": object()})
