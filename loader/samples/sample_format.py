"""Format samples and batches as text for logs, and as HTML for notebooks."""

from __future__ import annotations

import base64
import html
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any

import numpy as np
import yaml

from ..errors import escape_controls
from ..lazy_torch import torch
from .picture import Picture, PictureError, array_picture, encoded_picture, is_too_large_to_show, shrink_to_rgb

MAX_PAGE_BYTES = 200_000
"""Largest page: notebooks keep the page of each cell in their file."""

_PICTURE_PIXELS = 160  # of the longer side
_MIN_PIXELS = 8  # of a side: smaller arrays are rather numbers than pictures
_MAX_PICTURES = 8  # of a value
_CHANNELS = (1, 3, 4)
_TABLE = "border-collapse:collapse;text-align:left"
_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"
_TEXT = "margin:0;white-space:pre-wrap;overflow-wrap:anywhere"


class Page:
    """The pieces of a page that does not outgrow its limit; what does not fit is omitted."""

    def __init__(self, max_bytes: int = MAX_PAGE_BYTES) -> None:
        self._pieces: list[str] = []
        self._left = max_bytes - 100  # for the end of the page
        self.is_full = False

    def add(self, piece: str) -> bool:
        """Add a piece with all its tags closed; return False if it does not fit."""
        size_bytes = len(piece.encode())
        if size_bytes > self._left:
            self.is_full = True
            return False
        self._left -= size_bytes
        self._pieces.append(piece)
        return True

    def add_table(self, rows: Iterable[Sequence[str]]) -> None:
        """Add a table; the first of the forms of each row that fits is taken."""
        end = "</table>"
        self._left -= len(end)
        if self.add(f"<table style='{_TABLE}'>"):
            for forms in rows:
                any(self.add(form) for form in forms)
            self._pieces.append(end)

    def text(self) -> str:
        """Return the page, which says whether something was omitted."""
        end = "<p>… the rest is omitted: a cell holds 200 KB</p>" if self.is_full else ""
        return f"<div>{''.join(self._pieces)}{end}</div>"


def escaped(text: str) -> str:
    """Return text that a browser shows as it is, with control characters escaped."""
    return html.escape(escape_controls(text, keep="\n\t").encode("utf-8", "replace").decode())


def sample_html(sample: Any) -> str:
    """Return a page that shows a sample or batch: a row for each value, with its pictures."""
    page = Page()
    add_sample(page, sample, title=type(sample).__name__)
    return page.text()


def add_sample(page: Page, sample: Any, *, title: str) -> None:
    """Add a table with the values of a sample to a page."""
    page.add(f"<p style='margin:8px 0 2px'><b>{escaped(title)}</b></p>")
    page.add_table(_row_forms(name, value, text) for name, value, text in shown_values(sample))


def _row_forms(name: str, value: Any, text: str) -> tuple[str, str]:
    """Return the row of a value with its pictures, and without."""
    begin = f"<tr><th style='{_CELL}'>{escaped(name)}</th><td style='{_CELL}'>"
    row = f"{begin}<pre style='{_TEXT}'>{escaped(text)}</pre>"
    return f"{row}{''.join(_image_tags(value))}</td></tr>", f"{row}</td></tr>"


def _image_tags(value: Any) -> Iterator[str]:
    for picture in islice(_pictures(value), _MAX_PICTURES):
        with suppress(PictureError):
            data = base64.b64encode(picture.jpeg(_PICTURE_PIXELS)).decode()
            yield f"<img src='data:image/jpeg;base64,{data}' style='margin:2px'>"


def _pictures(value: Any) -> Iterator[Picture]:
    # An array of four dimensions is a batch or a clip: show its first pictures.
    if _is_array(value):
        shape = tuple(value.shape)
        if len(shape) == 4:
            for each in value[:_MAX_PICTURES]:
                yield from _pictures(each)
        elif len(shape) == 3 and _is_image(shape) and (picture := array_picture(value)) is not None:
            yield picture
    elif isinstance(value, bytes):
        with suppress(PictureError):
            if not is_too_large_to_show(value):
                yield encoded_picture(value)
    elif isinstance(value, list | tuple):
        for each in value[:_MAX_PICTURES]:
            if _is_array(each) or isinstance(each, bytes) or hasattr(each, "getbands"):
                yield from _pictures(each)
    elif hasattr(value, "getbands"):  # an image of Pillow
        yield Picture(width=value.width, height=value.height, load=lambda side: shrink_to_rgb(value.copy(), side))


def _is_image(shape: tuple[int, ...]) -> bool:
    sides = shape[1:] if shape[0] in _CHANNELS else shape[:2] if shape[2] in _CHANNELS else ()
    return bool(sides) and min(sides) >= _MIN_PIXELS


_MAX_CHARACTERS = 1000  # of a text in the detailed form
_MAX_ITEMS = 100  # of a list in the detailed form
_END_VALUES = 3  # of an array, at either end
_YAML_ITEMS = 10  # of a list, each of which takes a line or more

_SUMMARY_LINES = 60  # of a summary, and values of a container in it
_SUMMARY_ITEMS = 8  # of a list or dict
_SUMMARY_CHARACTERS = 100  # of a text
_SUMMARY_DEPTH = 6  # of nested values
_Short = str | bytes | int | float | complex | None  # values of a list that takes one line


def format_sample_compact(sample: Any, depth: int = 3, max_items: int = 10, max_str_len: int = 50) -> str:
    """Format a sample as one line: tensors and arrays as their shapes, long texts and lists truncated.

    Args:
        sample: A sample, a batch, or any value.
        depth: Number of nested levels of fields and lists to show.
        max_items: Number of items of a list or dict to show.
        max_str_len: Number of characters of a text to show.

    >>> format_sample_compact({"x": torch.zeros(3, 8, 8), "ids": list(range(99)), "text": "a" * 99}, max_items=2)
    "{'x': Tensor(shape=torch.Size([3, 8, 8]), dtype=torch.float32, device=cpu), 'ids': [0, 1, … 97 more], … 1 more}"
    """
    return _one_line(sample, depth, max_items, max_str_len, _long_form)


def _one_line(sample: Any, depth: int, max_items: int, max_str_len: int, array_text: Callable[[Any], str]) -> str:
    # Values without fields or items.
    if _is_array(sample):
        return array_text(sample)
    if isinstance(sample, str | bytes):
        return _cut(sample, max_str_len)
    if sample is None or isinstance(sample, int | float | complex):
        return repr(sample)
    if not (named := _named_values(sample)) and not isinstance(sample, Sequence | set | frozenset | Mapping):
        return _cut_text(repr(sample), max_str_len)
    # Fields and items, each in a bounded length, up to the given depth.
    left, right = _brackets(sample)
    if depth <= 0:
        return f"{left}…{right}"

    def text(value: Any) -> str:
        return _one_line(value, depth - 1, max_items, max_str_len, array_text)

    if isinstance(sample, Mapping):
        items = [
            f"{_cut_text(repr(name), max_str_len)}: {text(value)}" for name, value in islice(sample.items(), max_items)
        ]
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
    """Format a sample as YAML: tensors and arrays as text, long texts and lists truncated.

    Args:
        sample: A sample, a batch, or any value.
        indent: Prefix of each line.

    >>> print(format_sample_detailed({"mask": torch.tensor([0, 3]), "boxes": [1, 2], "text": "a cat"}))
    mask: Tensor(shape=torch.Size([2]), dtype=torch.int64, device=cpu, min=0, max=3, values=[0, 3])
    boxes:
    - 1
    - 2
    text: a cat
    """
    text: str = yaml.safe_dump(_yaml_value(sample), sort_keys=False, allow_unicode=True, width=120)
    return textwrap.indent(text.removesuffix("...\n").removesuffix("\n"), indent)


def _yaml_value(value: Any) -> Any:
    # Arrays are shown by shape, range and some values, as all would fill pages.
    if _is_array(value):
        return _with_values(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, float):  # a subclass has no form in YAML
        return value
    if isinstance(value, str):
        return _cut_text(str(value), _MAX_CHARACTERS)
    # Fields and items are shown by name, up to a limit.
    named = _named_values(value)
    if named or isinstance(value, Mapping):
        inner = {name if type(name) is int else str(name): _yaml_value(item) for name, item in named[:_MAX_ITEMS]} | (
            {"…": f"{len(named) - _MAX_ITEMS} more"} if len(named) > _MAX_ITEMS else {}
        )
        return inner if isinstance(value, Mapping) else {type(value).__name__: inner}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        items = [_yaml_value(item) for item in islice(value, _YAML_ITEMS)]
        return items + ([f"… {len(value) - _YAML_ITEMS} more"] if len(value) > _YAML_ITEMS else [])
    return _cut(value, _MAX_CHARACTERS) if isinstance(value, bytes) else _cut_text(repr(value), _MAX_CHARACTERS)


def shown_fields(sample: Any) -> str:
    """Format a sample or batch as its ``repr``: the fields that its class shows, each in a bounded length.

    >>> from loader import ImageSample
    >>> ImageSample(__key__="s.tar/0", image=torch.zeros(3, 8, 8))
    ImageSample(__key__='s.tar/0', image=Tensor(float32, [3, 8, 8]))
    """
    hidden, kind = _hidden(sample), type(sample).__name__
    named = [(name, value) for name, value in _named_values(sample) if name not in hidden]
    shown = [(_cut_text(str(name), 50), _one_line(value, 2, 10, 50, _shape)) for name, value in named[:_MAX_ITEMS]]
    more = [f"… {len(named) - _MAX_ITEMS} more"] if len(named) > _MAX_ITEMS else []
    if isinstance(sample, Mapping):
        return f"{kind}({{{', '.join([*(f'{name!r}: {text}' for name, text in shown), *more])}}})"
    return f"{kind}({', '.join([*(f'{name}={text}' for name, text in shown), *more])})"


def summarize(sample: Any) -> str:
    r"""Summarize a sample in a few lines, for ``print``: shapes, types and ranges of tensors, and short texts.

    Fields that a dataclass hides from its ``repr`` are omitted. Control characters are escaped. The length is bounded.

    >>> print(summarize({"image": torch.zeros(3, 8, 8), "boxes": [torch.ones(2, 4)], "text": "a\ncat"}))
    dict of 3
      image: Tensor(float32, [3, 8, 8]) from 0 to 0, mean 0
      boxes: list of 1
        0: Tensor(float32, [2, 4]) from 1 to 1, mean 1
      text: 'a\ncat'
    """
    lines = list(islice(_summary(sample, "", "", _SUMMARY_DEPTH), _SUMMARY_LINES + 1))
    return "\n".join([*lines[:_SUMMARY_LINES], *(["…"] if len(lines) > _SUMMARY_LINES else [])])


def shown_values(sample: Any) -> list[tuple[str, Any, str]]:
    """Return the fields that a sample or batch shows, or the value itself: name, value, and a summary of some lines."""
    hidden = _hidden(sample)
    named = [(str(name), value) for name, value in _named_values(sample) if name not in hidden]
    shown = named[:_SUMMARY_LINES] or [("", sample)]
    return [
        (name, value, "\n".join(islice(_summary(value, "", "", _SUMMARY_DEPTH), _SUMMARY_ITEMS)))
        for name, value in shown
    ]


def _summary(value: Any, name: str, indent: str, depth: int) -> Iterator[str]:
    # Arrays take one line, and so does everything that has no fields, or is too deep.
    first = indent + (f"{name}: " if name else "")
    if _is_array(value):
        yield first + _shape(value) + _range(value)
        return
    named = [(known, inner) for known, inner in _named_values(value) if known not in _hidden(value)]
    is_list = not named and isinstance(value, list | tuple) and not all(isinstance(inner, _Short) for inner in value)
    if not (named or is_list) or depth == 0:
        text = _one_line(value, 2, _SUMMARY_ITEMS, _SUMMARY_CHARACTERS, _shape)
        yield first + _cut_text(_escaped(text), 10 * _SUMMARY_CHARACTERS)
        return
    # Containers have a heading, and a line for each of their first values.
    pairs = list(enumerate(value)) if is_list else named
    counted = is_list or isinstance(value, Mapping)
    yield first + type(value).__name__ + (f" of {len(pairs)}" if counted else "")
    shown = _SUMMARY_ITEMS if is_list else _SUMMARY_LINES
    for key, inner in pairs[:shown]:
        yield from _summary(inner, _cut_text(_escaped(str(key)), _SUMMARY_CHARACTERS), f"{indent}  ", depth - 1)
    if len(pairs) > shown:
        yield f"{indent}  … {len(pairs) - shown} more"


def _hidden(sample: Any) -> set[str]:
    if isinstance(sample, Mapping):
        return {name for name in ("__restore_key__", "__sources__", "__subflavors__") if name in sample}
    return {known.name for known in fields(sample) if not known.repr} if is_dataclass(sample) else set()


def _escaped(text: str) -> str:
    return text if text.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _named_values(sample: Any) -> list[tuple[Any, Any]]:
    """Return the fields of a dataclass or named tuple, or the items of a mapping; none for other values."""
    if isinstance(sample, Mapping):
        return list(sample.items())
    if is_dataclass(sample) and not isinstance(sample, type):
        return [(known.name, getattr(sample, known.name, None)) for known in fields(sample)]
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return list(zip(sample._fields, sample, strict=True))
    return []


def _brackets(sample: Any) -> tuple[str, str]:
    if isinstance(sample, Mapping):
        return "{", "}"
    if type(sample) is list:
        return "[", "]"
    return ("(", ")") if type(sample) is tuple else (f"{type(sample).__name__}(", ")")


def _long_form(value: Any) -> str:
    """Describe a tensor or array as megatron-energon does."""
    kind, end = ("Tensor", f", device={value.device}") if _is_tensor(value) else ("np.ndarray", "")
    return f"{kind}(shape={value.shape}, dtype={value.dtype}{end})"


def _with_values(value: Any) -> str:
    """Describe a tensor or array as megatron-energon does, with its range and its first and last values."""
    form, is_tensor = _long_form(value), _is_tensor(value)
    with suppress(RuntimeError, TypeError, ValueError):  # no values, no order, or none in memory
        flat = (value.detach() if is_tensor else value).reshape(-1)
        least, most = (each.item() if is_tensor else each for each in (flat.min(), flat.max()))
        ends = [flat] if len(flat) <= 2 * _END_VALUES else [flat[:_END_VALUES], flat[-_END_VALUES:]]
        shown = ", ..., ".join(str(end.tolist() if is_tensor else [*end])[1:-1] for end in ends)
        return _cut_text(f"{form[:-1]}, min={least}, max={most}, values=[{shown}])", _MAX_CHARACTERS)
    return form


def _shape(value: Any) -> str:
    kind = "Tensor" if _is_tensor(value) else "ndarray"
    return f"{kind}({str(value.dtype).removeprefix('torch.')}, {list(value.shape)})"


def _range(value: Any) -> str:
    if _is_tensor(value) and value.is_meta:
        return ""
    values = value.detach().cpu().to_dense().numpy() if _is_tensor(value) and _is_plain(value) else value
    if not isinstance(values, np.ndarray) or not values.size or values.dtype.kind not in "biuf":
        return ""
    return f" from {values.min():g} to {values.max():g}, mean {values.mean():g}"


def _is_tensor(value: Any) -> bool:
    return sys.modules.get("torch") is not None and isinstance(value, torch.Tensor)  # who has a tensor has imported it


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or _is_tensor(value)


def _is_plain(value: torch.Tensor) -> bool:
    return not value.is_quantized and "bfloat16" not in str(value.dtype) and "float8" not in str(value.dtype)


def _cut(text: str | bytes, longest: int) -> str:
    if len(text) <= longest:
        return repr(text)
    return f"{text[:longest]!r}… {len(text) - longest} more"


def _cut_text(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
