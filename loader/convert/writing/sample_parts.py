"""The parts of samples as bytes, parts of typed samples by a field map, and the keys that can be written."""

from __future__ import annotations

import dataclasses
import gzip
import importlib
import importlib.util
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from ...accounting.kinds import is_compressed, kind_of_name, part_extension
from ...errors import ConfigError, SampleError
from ...format.documents.conversation import Turn
from ...format.documents.dataset_config import DatasetConfig, format_dataset_config, parse_dataset_config
from ...format.documents.field_map import FieldMap, parse_field_map
from ...format.documents.messages import did_you_mean
from ...format.documents.sample_types import CRUDE, SAMPLE_TYPES, SampleTypeSpec
from ...format.documents.value_name import ValueName
from .shard_file import FileContents, PartContents

_QUALITY = 95  # of JPEG and WebP
_CHANNELS = (1, 3, 4)
_GREY, _SINGLE = 2, 1


def encode_part(name: str, value: Any, *, key: str) -> PartContents:
    """Return the bytes of a part.

    Bytes are written as they are, a text in UTF-8, and a path as the contents of its file. Other values are encoded by
    the extension: pictures (PIL images, arrays of shape (H, W) or (H, W, C), tensors of shape (C, H, W); uint8, or
    floats from 0 to 1), ``json``, ``cls``, ``txt``, ``npy``, ``npz``, ``pth``, ``ten``, ``tb``, ``mp``, ``cbor``,
    ``pyd`` and the others that webdataset has, with ``.gz`` behind it if it ends so.

    Args:
        name: Part name; the extension is what follows its last dot.
        value: The value.
        key: Key of the sample, for messages.

    Raises:
        SampleError: The value cannot be written under this name.

    >>> encode_part("json", {"a": [1]}, key="0"), encode_part("cls", 7, key="0")
    (b'{"a": [1]}', b'7')
    """
    # Values that are bytes already, or files, keep them.
    if isinstance(value, bytes | bytearray | memoryview):
        return value
    if isinstance(value, os.PathLike):
        return _open_file(value, name, key)
    try:
        data = value.encode("utf-8") if isinstance(value, str) else _encode(part_extension(name), value)
    except Exception as error:
        raise SampleError(
            f"a value of {type(value).__name__} cannot be written as {name!r}: {str(error) or type(error).__name__}",
            key=key,
            part=name,
            source=f"sample {key}",
            hint="pass bytes, or a value of the kind of the extension",
        ) from error
    return gzip.compress(data, mtime=0) if is_compressed(name) else data


def _open_file(path: os.PathLike[str], name: str, key: str) -> FileContents:
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by the writer
        return FileContents(file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise SampleError(
            f"cannot read {os.fspath(path)}: {error.strerror}", key=key, part=name, source=f"sample {key}"
        ) from error


def _encode(extension: str, value: Any) -> bytes:
    if kind_of_name(extension) == "image":
        return _picture(extension, value)
    encoder = _ENCODERS.get(extension)
    if encoder is not None:
        return encoder(value)
    handlers = _webdataset_handlers()
    if extension not in handlers:
        raise ValueError("there is no encoder for this extension")
    return bytes(handlers[extension](_plain(value) if extension in _ARRAYS else value))


_PACKAGE = "_energon_webdataset"
_ARRAYS = frozenset({"npy", "npz", "tb", "ten", "tenbin"})


def _webdataset_handlers() -> Any:
    """Return the encoders of ``webdataset.writer`` by extension; the whole package would import torch."""
    if _PACKAGE not in sys.modules:
        spec = importlib.util.find_spec("webdataset")
        if spec is None or spec.submodule_search_locations is None:
            raise ImportError("webdataset is not installed", name="webdataset")
        package = ModuleType(_PACKAGE)
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules[_PACKAGE] = package  # its modules import each other relatively
    return importlib.import_module(f"{_PACKAGE}.writer").make_handlers()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, np.ndarray | int | float) else np.asarray(_array(value))


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_json_value).encode("utf-8")


def _json_value(value: Any) -> Any:
    plain = _array(value)
    if isinstance(plain, np.ndarray | np.generic):
        return plain.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _label(value: Any) -> bytes:
    plain = _array(value)
    label = plain.item() if isinstance(plain, np.ndarray | np.generic) else plain
    if not isinstance(label, int):
        raise TypeError("expected an integer")
    return b"%d" % label


def _text(value: Any) -> bytes:
    raise TypeError(f"expected a text, found {type(value).__name__}")


def _cbor(value: Any) -> bytes:
    import cbor2

    return bytes(cbor2.dumps(value))


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    **dict.fromkeys(("json", "jsn"), _json),
    **dict.fromkeys(("cls", "cls2", "class", "count", "index", "inx", "id"), _label),
    **dict.fromkeys(("txt", "text", "transcript", "html", "htm"), _text),
    "cbor": _cbor,
}
"""Encoders that replace webdataset's, which accept wrong types or need an unmaintained package."""


def _picture(extension: str, value: Any) -> bytes:
    from PIL import Image

    picture = value if isinstance(value, Image.Image) else Image.fromarray(_pixels(value))
    # The extension names the format.
    form = Image.registered_extensions().get(f".{extension}")
    if form is None or form not in Image.SAVE:
        raise ValueError("pictures cannot be written in this format")
    if form == "JPEG" and picture.mode not in ("RGB", "L", "CMYK"):
        picture = picture.convert("RGB")
    encoded = io.BytesIO()
    picture.save(encoded, form, quality=_QUALITY)
    return encoded.getvalue()


def _pixels(value: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return pixels of shape (H, W) or (H, W, C)."""
    # Bring the channels to the end, and drop a single one.
    pixels = np.asarray(_array(value))
    if hasattr(value, "detach") and pixels.ndim > _GREY:
        pixels = np.moveaxis(pixels, 0, -1)  # tensors have the channels first
    if pixels.ndim == _GREY + 1 and pixels.shape[-1] == _SINGLE:
        pixels = pixels[..., 0]
    if pixels.ndim not in (_GREY, _GREY + 1) or (pixels.ndim > _GREY and pixels.shape[-1] not in _CHANNELS):
        raise ValueError(f"expected the shape of a picture, found {tuple(np.shape(_array(value)))}")
    # Scale the values to bytes.
    if pixels.dtype.kind == "f":
        if not (pixels.min(initial=0) >= 0 and pixels.max(initial=0) <= 1):
            raise ValueError("expected floats from 0 to 1, or uint8")
        pixels = np.round(pixels * 255)
    elif pixels.dtype == np.bool_:
        pixels = pixels.astype(np.uint8) * 255
    elif pixels.dtype != np.uint8:
        raise ValueError(f"expected floats from 0 to 1, or uint8, found {pixels.dtype}")
    return np.ascontiguousarray(pixels.astype(np.uint8))


_PART_OF_KIND = {
    "image": "jpg",
    "image_list": "jpg",
    "label": "cls",
    "tensor": "npy",
    "images": "npy",
    "video": "mp4",
    "audio": "wav",
}
"""Parts of the fields of some kinds; the first text is ``txt``, all other values are in ``json``."""


class SampleParts:
    """Turns typed samples into parts.

    Args:
        sample_type: Name of their type, such as ``CaptioningSample``.
        field_map: Field → expression; None for one by the kinds of the fields.
    """

    def __init__(self, sample_type: str, field_map: Mapping[str, str] | None = None) -> None:
        spec = SAMPLE_TYPES.get(sample_type)
        if spec is None or spec.crude:
            raise ConfigError(
                f"there is no sample type {sample_type!r} with fields{did_you_mean(sample_type, SAMPLE_TYPES)}",
                hint="write dicts of parts for other samples",
            )
        self.spec = spec
        expressions = dict(field_map) if field_map is not None else _default_map(spec)
        self.field_map: FieldMap = parse_field_map(expressions, file="field_map")
        # The checks of dataset.yaml: unknown and missing fields.
        parse_dataset_config(self.description(), file="field_map")

    def description(self) -> str:
        return format_dataset_config(DatasetConfig(sample_type=self.spec.name, field_map=self.field_map))

    def parts(self, sample: Any, *, key: str) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        for name, accesses in self.field_map.fields.items():
            value = getattr(sample, name, None)
            if value is None:
                if name in self.spec.required:
                    raise SampleError(f"the field {name!r} is missing", key=key, source=f"sample {key}")
                continue
            access = accesses[0]
            value = _written_value(value, is_tree=bool(access.path))
            # A value is inside of a tree that fields share, or a part of its own.
            if access.path:
                _insert(parts, access, value, key)
            elif access.part in parts:
                raise SampleError(f"two fields need the part {access.part!r}", key=key, source=f"sample {key}")
            else:
                parts[access.part] = value
        return parts


def description(sample_type: str | None, field_map: Mapping[str, str] | None) -> str | None:
    """Return the ``dataset.yaml`` of dicts of parts; None without a sample type."""
    if sample_type is None:
        return None
    if sample_type in (CRUDE.name, CRUDE.short_name):
        return format_dataset_config(DatasetConfig(sample_type=CRUDE.name, crude=True))
    return SampleParts(sample_type, field_map).description()


def type_of_sample(sample: Any) -> str | None:
    """Return the name of the nearest type of a sample object that the library has; None for other objects."""
    if not dataclasses.is_dataclass(sample) or isinstance(sample, type):
        return None
    names = (kind.__name__ for kind in type(sample).__mro__)
    return next((name for name in names if name in SAMPLE_TYPES), None)


def _default_map(spec: SampleTypeSpec) -> dict[str, str]:
    """Return a field map by the kinds of the fields.

    >>> _default_map(SAMPLE_TYPES["CaptioningSample"]), _default_map(SAMPLE_TYPES["VQASample"])["answers"]
    ({'image': 'jpg', 'caption': 'txt'}, 'json[answers]')
    """
    expressions: dict[str, str] = {}
    taken: set[str] = set()
    # The first field of a kind gets the usual part, and the others are in JSON.
    for field in spec.fields:
        part = _PART_OF_KIND.get(field.kind)
        if part is None and field.kind in ("text", "label_name") and "txt" not in taken:
            part = "txt"
        if part == "npy":
            part = f"{field.name}.npy"
        if part is None or part in taken:
            expressions[field.name] = ValueName("json", (field.name,)).expression
        else:
            taken.add(part)
            expressions[field.name] = part
    return expressions


def _insert(parts: dict[str, Any], access: ValueName, value: Any, key: str) -> None:
    tree = parts.setdefault(access.part, {})
    for step in access.path[:-1]:
        tree = tree.setdefault(str(step), {}) if isinstance(tree, dict) else None
    if not isinstance(tree, dict) or any(isinstance(step, int) for step in access.path) or access.path[-1] in tree:
        raise SampleError(
            f"a value cannot be written at {access}", key=key, source=f"sample {key}", hint="name a field of a mapping"
        )
    tree[access.path[-1]] = value


def _written_value(value: Any, *, is_tree: bool) -> Any:
    if isinstance(value, list | tuple) and value and isinstance(value[0], Turn):
        return [{"role": turn.role, "content": turn.text, **turn.extra} for turn in value]
    if not is_tree and isinstance(value, list | tuple) and len(value) == 1:
        return value[0]  # one picture of a list
    return value


_WRONG_IN_KEY = re.compile(r"[\x00-\x1f\x7f]|^/|/$|//|^$")


def checked_key(key: object, part_names: Iterable[str]) -> str:
    """Return the key of a sample."""
    if not isinstance(key, str):
        raise SampleError("the sample has no '__key__'", hint="add a text that is unique in the dataset")
    # Readers skip hidden folders, and take the part from the first dot.
    folders = key.split("/")
    is_hidden = any(name.startswith(".") for name in folders) or (folders[0][:2] == folders[0][-2:] == "__")
    if _WRONG_IN_KEY.search(key) or "." in folders[-1] or is_hidden:
        raise SampleError(
            f"the key {key!r} cannot be the name of a file in a shard",
            key=key,
            hint="use no dot after the last slash, where the part name begins, and no hidden folders",
        )
    names = [*part_names]
    for name in names:
        if not name or name.startswith((".", "_")) or "/" in name or not name.isprintable():
            raise SampleError(f"a part cannot have the name {name!r}", key=key, hint="name it by its extension")
    if not names:
        raise SampleError("the sample has no parts", key=key, source=f"sample {key}")
    return key


def split_by_hash(key: str, ratio: Mapping[str, float] | None) -> str:
    """Return the split part of a key by its hash; ``""`` without a ratio.

    >>> split_by_hash("0001", {"train": 1, "val": 0})
    'train'
    """
    if ratio is None:
        return ""
    # The hash is a position in the shares.
    position = int.from_bytes(blake2b(key.encode(), digest_size=8, person=b"split").digest(), "big") / 2**64
    position *= sum(ratio.values())
    for name, share in ratio.items():
        if position < share:
            return name
        position -= share
    return next(name for name in reversed([*ratio]) if ratio[name])


_Hashes = npt.NDArray[np.uint64]


class SeenKeys:
    """The keys of samples by a hash of 64 bits, and the number of the shard of each.

    The keys of the last samples are in a dictionary; older ones are in sorted arrays, 12 bytes a key, which are merged
    when they are of like lengths, so that there are few of them.
    """

    _MAX_RECENT = 1 << 16

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._runs: list[tuple[_Hashes, npt.NDArray[np.uint32]]] = []

    def add(self, key: str, shard: int) -> None:
        self._recent[_hash(key)] = shard
        if len(self._recent) >= self._MAX_RECENT:
            self._settle()

    def shard(self, key: str) -> int | None:
        """Return the shard of a key, or of another key with the same hash; None for a key that is new."""
        value = _hash(key)
        if value in self._recent:
            return self._recent[value]
        wanted = np.uint64(value)
        for hashes, shards in self._runs:
            position = int(np.searchsorted(hashes, wanted))
            if position < len(hashes) and hashes[position] == wanted:
                return int(shards[position])
        return None

    def _settle(self) -> None:
        run = np.fromiter(self._recent.keys(), np.uint64, len(self._recent))
        shards = np.fromiter(self._recent.values(), np.uint32, len(self._recent))
        self._recent = {}
        # Merge runs of like lengths, so that their number grows with the logarithm of the keys.
        while self._runs and len(self._runs[-1][0]) <= 2 * len(run):
            last_run, last_shards = self._runs.pop()
            run, shards = np.concatenate((last_run, run)), np.concatenate((last_shards, shards))
        order = np.argsort(run)
        self._runs.append((run[order], shards[order]))


def _hash(key: str) -> int:
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
