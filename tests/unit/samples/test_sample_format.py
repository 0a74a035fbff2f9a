"""Format samples as text that is short enough for a log, whatever they contain."""

from __future__ import annotations

import signal

import numpy as np
import torch
import yaml

from loader import CaptioningSample, SourceInfo
from loader.samples.sample_format import format_sample_compact, format_sample_detailed


def test_compact_form_is_one_line() -> None:
    sample = CaptioningSample(__key__="s.tar/0", image=torch.zeros(3, 2, 4), caption="x" * 80)
    text = format_sample_compact(sample, max_str_len=5)
    assert text.startswith("CaptioningSample(__key__='s.tar'… 2 more, ")
    assert (
        "image=Tensor(shape=torch.Size([3, 2, 4]), dtype=torch.float32, device=cpu), caption='xxxxx'… 75 more" in text
    )
    assert "\n" not in text


def test_depth_and_number_of_items_are_limited() -> None:
    assert format_sample_compact([[[1]]], depth=2) == "[[[…]]]"
    assert format_sample_compact((1, 2, 3), max_items=2) == "(1, 2, … 1 more)"
    assert format_sample_compact({"a": {1}}, depth=2) == "{'a': set(1)}"
    assert format_sample_compact(np.zeros((2, 3), np.uint8)) == "np.ndarray(shape=(2, 3), dtype=uint8)"
    assert format_sample_compact(object())[:8] == "<object "
    assert format_sample_compact([None, 1.5, True, b"ab"]) == "[None, 1.5, True, b'ab']"


def test_detailed_form_is_yaml_with_the_ranges_of_tensors() -> None:
    sample = {
        "image": torch.arange(7).reshape(1, 7),
        "half": torch.zeros(2, dtype=torch.bfloat16),
        "empty": np.zeros(0),
        "boxes": [np.array([1, 3])],
        "source": SourceInfo("/d", 0, "s.tar", ()),
        "numbers": [np.float32(1.5), np.int64(2), signal.SIGINT, object],
        "text": "two: lines\n'quoted'\x1b",
        7: {1},
    }
    assert yaml.safe_load(format_sample_detailed(sample)) == {
        "image": "Tensor(shape=torch.Size([1, 7]), dtype=torch.int64, device=cpu, min=0, max=6,"
        " values=[0, 1, 2, ..., 4, 5, 6])",
        "half": "Tensor(shape=torch.Size([2]), dtype=torch.bfloat16, device=cpu, min=0.0, max=0.0, values=[0.0, 0.0])",
        "empty": "np.ndarray(shape=(0,), dtype=float64)",
        "boxes": ["np.ndarray(shape=(2,), dtype=int64, min=1, max=3, values=[np.int64(1), np.int64(3)])"],
        "source": {"SourceInfo": {"dataset_path": "/d", "index": 0, "shard_name": "s.tar", "file_names": []}},
        "numbers": [1.5, 2, "<Signals.SIGINT: 2>", "<class 'object'>"],
        "text": "two: lines\n'quoted'\x1b",
        7: [1],
    }


def test_detailed_form_truncates_long_values() -> None:
    assert yaml.safe_load(format_sample_detailed([0] * 200)) == [*[0] * 10, "… 190 more"]
    assert yaml.safe_load(format_sample_detailed({str(key): key for key in range(105)}))["…"] == "5 more"
    assert len(format_sample_detailed("x" * 5000)) < 1100
