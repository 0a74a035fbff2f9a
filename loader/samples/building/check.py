"""Whether the parts of a sample decode, and make a sample: what ``energon lint`` asks of every sample.

Nothing here imports torch unless a dataset has tensors, or code that makes its samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...cached_property import cached_property
from ...errors import EnergonError, SampleError
from ...format.documents.dataset_config import DatasetConfig
from ...format.documents.part_kinds import part_kind
from ...format.documents.sample_types import FieldKind
from ..decoding.image_check import check_image_bytes
from ..decoding.image_decode import IMAGE_FORMS
from ..decoding.part_decode import decode_part
from ..trust import is_trusted

__all__ = ["PICTURE", "DecodeCheck", "check_image_bytes", "kind_fault"]


class DecodeCheck:
    """Check one sample after the other; picklable, so that worker processes can do it.

    Args:
        config: What ``dataset.yaml`` says; None checks only that the parts decode.
        meta_folder: The ``.nv-meta`` folder, where ``sample_loader.py`` is.
        trust_code: Code and pickles of the dataset may run; without, pickles and ``sample_loader.py`` are not checked.

    >>> check = DecodeCheck(None, Path("dataset/.nv-meta"), trust_code=False)
    >>> check("0001", {"txt": b"a cat", "json": b"{"})
    [('json', "part 'json' does not decode as json: Expecting property name enclosed in double quotes: ...")]
    """

    def __init__(self, config: DatasetConfig | None, meta_folder: Path, trust_code: bool) -> None:
        self._config = config
        self._meta_folder = meta_folder
        self._trusted = is_trusted(trust_code)

    @property
    def unchecked(self) -> str | None:
        """What of this dataset this check cannot tell, and why; None if it checks everything."""
        config = self._config
        if config is None or config.crude or self._trusted:
            return None
        if config.sample_loader is not None:
            return f"samples were not made: {config.sample_loader} is code, which runs only with --trust-code"
        if config.spec is None:
            named = (
                (config.module, config.sample_type)
                if config.sample_type
                else (config.dataset_module, config.dataset_class)
            )
            return f"samples were not made: {named[0]}.{named[1]} is imported only with --trust-code"
        return None

    def __call__(self, key: str, parts: Mapping[str, bytes]) -> list[tuple[str | None, str]]:
        """Check a sample.

        Args:
            key: The sample's key.
            parts: All of its parts, by name.

        Returns:
            What is wrong: the part (None: the sample as a whole) and one line about it. Empty if nothing is. An empty
            text is nothing wrong; every other empty part is.
        """
        faults: list[tuple[str | None, str]] = []
        values: dict[str, Any] = {}
        for name, data in parts.items():
            try:
                values[name] = self._check_part(name, data)
            except EnergonError as error:
                faults.append((name, error.message))
            except ImportError as error:
                faults.append((name, str(error)))
        if not faults:
            faults = self._check_sample(key, parts, values)
        return faults

    def _check_part(self, name: str, data: bytes) -> Any:
        kind = part_kind(name)
        if not data and kind != "text":
            raise SampleError(f"part {name!r} is empty (0 bytes)", part=name)
        if kind == "image" and not name.endswith(".gz"):
            found = check_image_bytes(data, name, trusted=self._trusted)
            if found is not None:
                raise SampleError(found, part=name)
            return PICTURE
        if kind == "pickle" and not self._trusted:
            return data
        return decode_part(name, data, form=IMAGE_FORMS["rgb8"], trusted=self._trusted)

    def _check_sample(
        self, key: str, parts: Mapping[str, bytes], values: dict[str, Any]
    ) -> list[tuple[str | None, str]]:
        config = self._config
        if config is None or config.crude:
            return []
        spec = config.spec
        if config.field_map is None or spec is None:
            return self._build(key, parts)
        try:
            fields = config.field_map.apply(values, optional=spec.optional)
        except SampleError as error:
            # A part that is there is not to blame for what was looked for inside it.
            return [(None if error.part in parts else error.part, error.message)]
        faults: list[tuple[str | None, str]] = []
        for name, value in fields.items():
            field = spec.field(name)
            # Much data has the only answer to a question as text, which no field map can put into a list.
            fine = (value is None and not field.required) or (name == "answers" and isinstance(value, str))
            found = None if fine else kind_fault(field.kind, value)
            if found is not None:
                expression = config.field_map.expressions()[name]
                faults.append((None, f"field {name!r} ({expression}): {found}"))
        return faults

    def _build(self, key: str, parts: Mapping[str, bytes]) -> list[tuple[str | None, str]]:
        """Make the sample as training would, with the code that the dataset brings."""
        if self._builder is None:
            return []
        needed = {name: data for name, data in parts.items() if self._builder.part_filter(name)}
        try:
            self._builder.build(needed, key=key)
        except SampleError as error:
            return [(error.part, error.message.removeprefix(f"sample {key!r}: "))]
        except Exception as error:  # noqa: BLE001 - the dataset's own code may raise anything
            return [(None, f"making the sample fails: {type(error).__name__}: {error}")]
        return []

    @cached_property
    def _builder(self) -> Any:
        if self.unchecked is not None:
            return None
        from ..decoding.decoder import SampleDecoder  # these import torch
        from .sample_builder import SampleBuilder

        return SampleBuilder(
            self._config, meta_folder=self._meta_folder, decoder=SampleDecoder(), trust_code=self._trusted
        )


class _Picture:
    """Stands for a picture that was checked, but not kept."""

    __slots__ = ()


PICTURE: Final = _Picture()
"""Stands for a picture that was checked, but not kept."""


def kind_fault(kind: FieldKind, value: object) -> str | None:
    """Tell what is wrong with a value for a field of that kind; None if nothing is.

    >>> kind_fault("text", "a cat"), kind_fault("text", {"en": "a cat"})
    (None, "expected text, found dict: {'en': 'a cat'}")
    """
    check = _CHECKS.get(kind)
    if check is None:
        return None
    fits, expected = check
    if fits(value):
        return None
    if value is PICTURE:
        return f"expected {expected}, found an image"
    shown = "" if value is None else f": {value!r}"
    return f"expected {expected}, found {type(value).__name__}{shown[:60]}"


def _is_picture(value: object) -> bool:
    # Arrays (npy) and tensors of two or three dimensions may be pictures, too.
    return value is PICTURE or getattr(value, "ndim", 0) in (2, 3)


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) or hasattr(value, "ndim")


def _is_media(value: object) -> bool:
    return isinstance(value, bytes) or hasattr(value, "ndim")


_CHECKS: Mapping[FieldKind, tuple[Callable[[Any], bool], str]] = {
    "audio": (_is_media, "audio"),
    "image": (_is_picture, "an image"),
    "images": (_is_list, "a list of images"),
    "label": (_is_number, "a whole number"),
    "label_name": (lambda value: isinstance(value, str), "text"),
    "sequence": (_is_list, "a list"),
    "tensor": (_is_list, "numbers"),
    "text": (lambda value: isinstance(value, str), "text"),
    "text_list": (_is_list_of_text, "a list of texts"),
    "video": (_is_media, "a video"),
}
