"""Samples and batches as text, for logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["format_sample_compact", "format_sample_detailed"]

_LONGEST = 1000  # characters of a text in the detailed form
_MOST_ITEMS = 100  # of a list in the detailed form


def format_sample_compact(sample: Any, depth: int = 3, max_items: int = 10, max_str_len: int = 50) -> str:
    """Give a sample as one line: tensors and arrays by their shapes, long texts and lists cut.

    Args:
        sample: A sample, a batch, or any value.
        depth: How many levels of fields and lists are looked into.
        max_items: The most items of a list or dict that are shown.
        max_str_len: The most characters of a text that are shown.

    >>> format_sample_compact({"image": torch.zeros(3, 8, 8), "ids": list(range(99)), "text": "a" * 99}, max_items=2)
    "{'image': Tensor(float32, [3, 8, 8]), 'ids': [0, 1, … 97 more], … 1 more}"
    """
    if isinstance(sample, Tensor | np.ndarray):
        return _shape(sample)
    if isinstance(sample, str | bytes):
        return _cut(sample, max_str_len)
    if sample is None or isinstance(sample, int | float | complex):
        return repr(sample)
    if not (named := _named_values(sample)) and not isinstance(sample, Sequence | set | frozenset | Mapping):
        return _cut_text(repr(sample), max_str_len)
    left, right = _brackets(sample)
    if depth <= 0:
        return f"{left}…{right}"

    def text(value: Any) -> str:
        return format_sample_compact(value, depth - 1, max_items, max_str_len)

    if isinstance(sample, Mapping):
        items = [f"{name!r}: {text(value)}" for name, value in list(sample.items())[:max_items]]
        count = len(sample)
    elif named:
        items = [f"{name}={text(value)}" for name, value in named[:max_items]]
        count = len(named)
    else:
        items = [text(value) for value in list(sample)[:max_items]]
        count = len(sample)
    more = [f"… {count - max_items} more"] if count > max_items else []
    return f"{left}{', '.join([*items, *more])}{right}"


def format_sample_detailed(sample: Any, indent: str = "") -> str:
    """Give a sample as lines, one for each value: tensors and arrays with shape, type and range of values.

    Args:
        sample: A sample, a batch, or any value.
        indent: What each line but the first begins with.

    >>> print(format_sample_detailed({"mask": torch.tensor([0, 3]), "text": "a cat"}))
    dict of 2
      mask: Tensor(int64, [2]) from 0 to 3, mean 1.5
      text: 'a cat'
    """
    if isinstance(sample, Tensor | np.ndarray):
        return _shape(sample) + _range(sample)
    if isinstance(sample, str | bytes):
        return _cut(sample, _LONGEST)
    named = _named_values(sample)
    is_list = isinstance(sample, Sequence | set | frozenset) and not named
    if not named and not is_list:
        return _cut_text(repr(sample), _LONGEST)
    pairs = list(enumerate(sample)) if is_list else named
    lines = [type(sample).__name__ + (f" of {len(pairs)}" if is_list or isinstance(sample, Mapping) else "")]
    inner = f"{indent}  "
    lines += [f"{inner}{name}: {format_sample_detailed(value, inner)}" for name, value in pairs[:_MOST_ITEMS]]
    if len(pairs) > _MOST_ITEMS:
        lines.append(f"{inner}… {len(pairs) - _MOST_ITEMS} more")
    return "\n".join(lines)


def _named_values(sample: Any) -> list[tuple[Any, Any]]:
    """Give the fields of a dataclass or named tuple, or the items of a mapping; none for other values."""
    if isinstance(sample, Mapping):
        return list(sample.items())
    if is_dataclass(sample) and not isinstance(sample, type):
        return [(known.name, getattr(sample, known.name)) for known in fields(sample)]
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return list(zip(sample._fields, sample, strict=True))
    return []


def _brackets(sample: Any) -> tuple[str, str]:
    if isinstance(sample, Mapping):
        return "{", "}"
    if type(sample) is list:
        return "[", "]"
    return ("(", ")") if type(sample) is tuple else (f"{type(sample).__name__}(", ")")


def _shape(value: Any) -> str:
    kind = "Tensor" if isinstance(value, Tensor) else "ndarray"
    return f"{kind}({str(value.dtype).removeprefix('torch.')}, {list(value.shape)})"


def _range(value: Any) -> str:
    values = value.detach().cpu().to_dense().numpy() if isinstance(value, Tensor) and _is_plain(value) else value
    if not isinstance(values, np.ndarray) or not values.size or values.dtype.kind not in "biuf":
        return ""
    return f" from {values.min():g} to {values.max():g}, mean {values.mean():g}"


def _is_plain(value: Tensor) -> bool:
    """Tell whether numpy has values of this kind."""
    return not value.is_quantized and "bfloat16" not in str(value.dtype) and "float8" not in str(value.dtype)


def _cut(text: str | bytes, longest: int) -> str:
    if len(text) <= longest:
        return repr(text)
    return f"{text[:longest]!r}… {len(text) - longest} more"


def _cut_text(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
