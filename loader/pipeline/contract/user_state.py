"""Convert the states of users' datasets, which may hold any values, to text and back.

JSON with tags: a dict with a single key that begins with ``$`` holds a value of another type.
"""

from __future__ import annotations

import base64
import io
import json
import math
import pickle
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...errors import StateError, TrustError
from ...lazy_torch import torch
from ...samples.trust import is_trusted


class Savable(ABC):
    """Object that a dataset names in ``_savable_fields``, and that is saved and restored by its own methods."""

    @abstractmethod
    def save_state(self) -> Any:
        """Return the state: plain data, where possible."""

    @abstractmethod
    def restore_state(self, state: Any) -> None:
        """Restore the result of :meth:`save_state`; None restores the initial state."""


class FlexState(dict[str, Any]):
    """State of a user's dataset, a dict, under the name that megatron-energon has for it."""


FlexState.__module__ = "megatron.energon.state"  # the name that pickles and lists of safe globals have


_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {"$tuple": tuple, "$set": set, "$frozenset": frozenset}
_TAGS: dict[Any, str] = {tuple: "$tuple", set: "$set", frozenset: "$frozenset"}


def encode_state(
    state: Any, *, encode_sample: Callable[[Any], Any | None], report_pickled: Callable[[str, Any], None]
) -> str:
    """Return a state as text.

    Args:
        state: The result of a dataset's ``save_state``.
        encode_sample: Returns plain data from which a sample is rebuilt; None for all other values.
        report_pickled: Called with the place and the value of data that has to be pickled.

    Raises:
        StateError: A value can be neither converted nor pickled.

    >>> text = encode_state({"n": 3, "at": (1.5, -2)}, encode_sample=lambda _: None, report_pickled=print)
    >>> text
    '{"n":3,"at":{"$tuple":[1.5,-2]}}'
    >>> decode_state(text, decode_sample=print)
    {'n': 3, 'at': (1.5, -2)}
    """

    def plain(value: Any, path: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        # A sample is saved as its id; containers, bytes, arrays and tensors by tags.
        if (saved := encode_sample(value)) is not None:
            return {"$sample": saved}
        if kind is list:
            return [plain(inner, f"{path}[{index}]") for index, inner in enumerate(value)]
        if kind in _TAGS:
            return {_TAGS[kind]: [plain(inner, f"{path}[…]") for inner in value]}
        if kind is deque:
            return {"$deque": [[plain(inner, f"{path}[…]") for inner in value], value.maxlen]}
        if kind is bytes:
            return {"$bytes": base64.b64encode(value).decode("ascii")}
        if isinstance(value, dict) and kind.__module__ in ("builtins", FlexState.__module__):
            if all(type(key) is str and not key.startswith("$") for key in value):
                return {key: plain(inner, f"{path}.{key}") for key, inner in value.items()}
            return {"$dict": [[plain(key, path), plain(inner, f"{path}[{key!r}]")] for key, inner in value.items()]}
        if kind in (np.ndarray, np.memmap) and not value.dtype.hasobject:  # other classes have more than an array
            return {"$array": _written(partial(np.save, arr=np.asarray(value), allow_pickle=False))}
        if isinstance(value, np.generic) and not value.dtype.hasobject:
            return {"$scalar": _written(partial(np.save, arr=np.asarray(value), allow_pickle=False))}
        if kind is torch.Tensor:
            return {
                "$tensor": _written(partial(torch.save, value.detach().clone()))
            }  # a view would save the whole storage
        # Only objects of other classes are pickled, which costs time in each state.
        report_pickled(path, value)
        return {"$pickle": _pickled(value, path)}

    if isinstance(state, dict):
        state = dict(state)
    try:
        return json.dumps(plain(state, "state"), ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError) as error:
        raise StateError(
            f"cannot save the state of a user's dataset: {type(error).__name__}: {error}",
            hint="return plain data from save_state: lists and dicts that do not contain themselves, and integers of "
            "up to 4300 digits",
        ) from error


# What damaged arrays, tensors and pickles raise.
_DAMAGE = (
    *(LookupError, TypeError, ValueError, EOFError, RuntimeError, OverflowError, pickle.UnpicklingError),
    *(AssertionError, AttributeError, MemoryError, OSError),
)


def decode_state(text: str, *, decode_sample: Callable[[Any], Any]) -> Any:
    """Return the state that :func:`encode_state` converted.

    Raises:
        TrustError: It has a pickle, which could run any code, and the environment does not trust it.
    """

    def value_of(plain: Any) -> Any:
        if isinstance(plain, list):
            return [value_of(inner) for inner in plain]
        if not isinstance(plain, dict):
            return plain
        tag = next(iter(plain), "")
        if not tag.startswith("$"):
            return {key: value_of(inner) for key, inner in plain.items()}
        # A dict with a tag is the value of another type.
        held = plain[tag]
        if tag in _SEQUENCES:
            return _SEQUENCES[tag](value_of(held))
        if tag == "$deque":
            return deque(value_of(held[0]), held[1])
        if tag == "$dict":
            return {value_of(key): value_of(inner) for key, inner in held}
        if tag == "$bytes":
            return base64.b64decode(held)
        if tag == "$sample":
            return decode_sample(held)
        if tag in ("$array", "$scalar"):
            array = _array(base64.b64decode(held))
            return array if tag == "$array" else array[()]
        if tag == "$tensor":
            return _tensor(base64.b64decode(held))
        if tag != "$pickle":
            raise ValueError(f"unknown tag {tag!r}")
        # A pickle is loaded if the environment trusts it.
        if not is_trusted(False):
            raise TrustError(
                "the saved state of a user's dataset has a pickled object, which can run any code",
                hint="set ENERGON_TRUST_CODE=1, if you trust the state; or return plain data from save_state",
            )
        return pickle.loads(base64.b64decode(held))  # noqa: S301 - trusted

    try:
        return value_of(json.loads(text))
    except _DAMAGE as error:
        raise StateError(f"the state of a user's dataset is damaged: {type(error).__name__}: {error}") from error


def _written(write: Callable[[io.BytesIO], Any]) -> str:
    buffer = io.BytesIO()
    write(buffer)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _array(data: bytes) -> np.ndarray[Any, Any]:
    file = io.BytesIO(data)
    if not data.startswith(np.lib.format.MAGIC_PREFIX):
        raise ValueError("expected an array")
    version = np.lib.format.read_magic(file)
    read_header: Any = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    expected, actual = math.prod(shape) * dtype.itemsize, len(data) - file.tell()
    if expected != actual:  # numpy allocates memory by the header alone
        raise ValueError(f"expected an array of {expected} bytes, found {actual}")
    array: np.ndarray[Any, Any] = np.load(io.BytesIO(data), allow_pickle=False)
    return array


def _tensor(data: bytes) -> torch.Tensor:
    tensor = torch.load(io.BytesIO(data), weights_only=True)
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a tensor, found a {type(tensor).__name__}")
    return tensor


def _pickled(value: Any, path: str) -> str:
    try:
        return base64.b64encode(pickle.dumps(value)).decode("ascii")
    except Exception as error:
        raise StateError(
            f"cannot save {path}, a {type(value).__name__}: {type(error).__name__}: {error}",
            hint="return plain data from save_state, and rebuild the object in restore_state",
        ) from error
