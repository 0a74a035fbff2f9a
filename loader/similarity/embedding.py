"""Models that make vectors of pictures and texts, as functions of a map: hashes, ready classes, and the user's own.

Packages of models are imported where they run, and none of the ready classes loads anything from the network: weights
are a file, or in the package's cache.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dataset.records import as_bytes
from ..errors import ConfigError, EnergonError, SkipSample, plural
from ..format.dataset_ref import DatasetRef
from ..format.documents.value_name import MissingValueError, ValueName, parse_value_name
from ..lazy_torch import torch
from ..mapping.function import UserFunction, named_function
from ..mapping.reading import whole_dataset
from ..mapping.values import without_torch
from ..parts.kinds import is_compressed, kind_of_name
from ..pipeline.reading.dataset_source import DatasetSource
from ..samples.building.described_dataset import DescribedDataset
from ..samples.decoding.image_decode import ImageForm, convert_image, open_image
from ..samples.decoding.part_decode import decode_part, decode_with
from ..samples.types import CrudeSample
from .picture_hash import hash_picture
from .text_hash import hash_text
from .vectors import PICTURE_HASH

_RGB = ImageForm(container="pil", floating=False, mode="RGB", background=(255, 255, 255))
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")  # of Hugging Face's packages, which read them when imported

Embed = Callable[[list[Any]], Any]
"""A function of a batch of pictures or texts, which returns a vector for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """Vectors of a part of samples, or of a value in it, made by a model.

    Attributes:
        part: Name of the part or value.
        reads: Name of the part.
        function: Called with samples whose parts are bytes.
        metric: How its vectors are compared.
        batch_size: Samples of a call; None for single samples, which hashes take.
        column: Name of the column, if the user gives none.
    """

    part: str
    reads: str
    function: UserFunction
    metric: str
    batch_size: int | None
    column: str


def embedding_of(
    model: str,
    part_names: Sequence[str],
    *,
    at: str,
    part: str | None = None,
    batch_size: int = 64,
    dtype: str = "float16",
    folder: str = "",
    version: str = "",
) -> Embedding:
    """Return what ``energon embed`` runs for a model.

    Args:
        model: ``phash`` of pictures, ``minhash`` of texts; ``open_clip:NAME``, ``sentence-transformers:NAME``,
            ``timm:NAME`` or ``torchvision:NAME``, where ``NAME@FILE`` names the file of the weights; or
            ``module:Class`` of the user.
        part_names: The parts of the dataset.
        at: Path of the dataset, for messages.
        part: The part to embed, or a value in it, ``json[caption]``; None for the first picture or text, whatever the
            model takes.
        dtype: Type of vectors of floats, which are stored with length 1.
        folder: Folder from which modules of the user are imported.
        version: Text that the user changes when results change and the module's file does not.

    Raises:
        ConfigError: There is no such model, or no part for it.
    """
    # Choose the part, whose name may say nothing about its kind.
    family, colon, name = model.partition(":")
    if not colon and model not in _HASHES:
        raise ConfigError(f"there is no model {model!r}", hint=f"{', '.join(_HASHES)}, open_clip:NAME or module:Class")
    kinds = _KINDS.get(family, ("image", "text"))
    value = _value(part, part_names, kinds, at=at)
    part = str(value) if value.path else value.part
    kind = "text" if value.path else kind_of_name(part)
    is_text = kind != "image" and (kind != "bytes" or "text" in kinds)
    if ("text" if is_text else "image") not in kinds:
        what = "texts" if is_text else "pictures"
        raise ConfigError(f"{model} takes no {what}, such as {part}", at=at, hint="name another part: --part")
    # Choose the function.
    if model in _HASHES:
        target: Any = _HashFunction(model=model, value=value)
        is_picture = model == PICTURE_HASH
        # An interrupted run of a version whose vectors were shorter begins again.
        function = UserFunction(model, part, version=version, target=target, token="90 bytes" if is_picture else "")
        metric, size, column = "hamming" if is_picture else "jaccard", None, model
    else:
        user = None if family in _READY else named_function(model, folder=folder, version=version)
        digest = user.source_digest() if user else ""
        function = UserFunction(
            model,
            f"{part}:{dtype}",
            folder=folder,
            version=f"{version} {digest}".strip(),
            target=_Model(family=family, name=name, user=user, value=value, is_text=is_text, dtype=dtype),
            token=digest,
            is_factory=True,
        )
        metric, size, column = "cosine", batch_size, "embedding"
    return Embedding(part=part, reads=value.part, function=function, metric=metric, batch_size=size, column=column)


def part_source(ref: DatasetRef, part: str) -> DatasetSource:
    """Return a prepared dataset whose samples, also excluded ones, are read with one part alone."""
    described: Any = DescribedDataset(ref.path, part_filter=[part], sample_type=CrudeSample)
    return replace(whole_dataset(ref), described=described)


def _value(given: str | None, names: Sequence[str], kinds: tuple[str, ...], *, at: str) -> ValueName:
    """Return the part to embed, which is not compressed, or the value in a part."""
    plain = [name for name in names if not is_compressed(name)]
    if given is None:
        for kind in kinds:
            for name in plain:
                if kind_of_name(name) == kind:
                    return ValueName(name)
        what = " or ".join({"image": "picture", "text": "text"}[kind] for kind in kinds)
        raise ConfigError(f"there is no part that is a {what}", at=at, hint=f"name a part: {', '.join(plain[:20])}")
    try:
        value = ValueName(given) if given in plain else parse_value_name(given)
    except ValueError as error:
        raise ConfigError(str(error), at=at) from error
    if value.part not in (names if value.path else plain) or value.trait:
        raise ConfigError(f"there is no part {given!r}", at=at, hint=f"parts: {', '.join(plain[:20])}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _HashFunction:
    """The hash of a part of one sample."""

    model: str
    value: ValueName

    def __call__(self, sample: Mapping[str, Any]) -> Any:
        content = _content(sample, self.value)
        if content is None:
            raise SkipSample(f"the sample has no {self.value}")
        if self.model != PICTURE_HASH:
            return hash_text(_text(content))
        return decode_with(hash_picture, self.value.part, as_bytes(content))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """A model, which each worker loads once, by a call."""

    family: str
    name: str
    user: UserFunction | None
    value: ValueName
    is_text: bool
    dtype: str

    def __call__(self) -> Callable[[Sequence[Mapping[str, Any]]], list[Any]]:
        """Load the model, and return the function of the samples of a batch."""
        name, _, weights = self.name.partition("@")
        try:
            embed = self.user.load() if self.user else _READY[self.family](name, weights, self.is_text)
        except EnergonError:
            raise
        except Exception as error:
            raise ConfigError(
                f"cannot load the model: {type(error).__name__}: {error}",
                at=f"{self.family}:{self.name}",
                hint="its weights are a file, NAME@FILE, or in the package's cache: nothing is downloaded",
            ) from error
        return partial(self._vectors_of_samples, embed)

    def _vectors_of_samples(self, embed: Embed, samples: Sequence[Mapping[str, Any]]) -> list[Any]:
        contents = [_content(sample, self.value) for sample in samples]
        rows = [row for row, content in enumerate(contents) if content is not None]
        vectors: list[Any] = [None] * len(samples)
        if rows:
            convert = _text if self.is_text else self._picture
            made = self._vectors(embed, [convert(contents[row]) for row in rows])
            for row, vector in zip(rows, made, strict=True):
                vectors[row] = vector
        return vectors

    def _picture(self, content: Any) -> Any:
        return decode_with(
            lambda data: convert_image(open_image(data), "RGB", _RGB), self.value.part, as_bytes(content)
        )

    def _vectors(self, embed: Embed, contents: list[Any]) -> list[Any]:
        """Return the vector of each content; an error for one that is not as long as the first one of the batch."""
        # A class that computes with torch has imported it.
        with torch.inference_mode() if sys.modules.get("torch") else nullcontext():
            vectors = [np.asarray(without_torch(row)) for row in without_torch(embed(contents))]
        if len(vectors) != len(contents):
            raise ValueError(f"expected {plural(len(contents), 'vector')}, found {len(vectors)}")
        return [self._normalized(vector, vectors[0].shape) for vector in vectors]

    def _normalized(self, vector: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any] | ValueError:
        if len(shape) != 1 or vector.dtype.kind not in "buif":
            raise ValueError(f"expected a vector of real numbers, found {vector.dtype} of shape {vector.shape}")
        if vector.shape != shape:  # the model may return another one for this sample alone
            return ValueError(f"expected a vector of shape {shape}, as for other samples, found {vector.shape}")
        vector = vector.astype(np.float32)
        length = np.linalg.norm(vector.astype(np.float64), axis=-1)
        if not np.isfinite(length):
            raise ValueError("the model returned numbers that are not finite")
        return np.asarray(vector / max(length, 1e-12), self.dtype)


def _content(sample: Mapping[str, Any], value: ValueName) -> Any:
    """Return a part of a sample, or the value in it; None if the sample has none."""
    content = sample.get(value.part)
    if content is None or not value.path:
        return content
    try:
        # Records hold values, and tar shards the bytes of parts.
        return value.value(decode_part(value.part, content, form=_RGB) if isinstance(content, bytes) else content)
    except MissingValueError:
        return None


def _text(content: Any) -> str:
    return as_bytes(content).decode("utf-8-sig", "replace")


# Ready classes: the model of a package in evaluation mode, on the GPU if there is one.


def _open_clip(name: str, weights: str, is_text: bool) -> Embed:
    open_clip = _imported("open_clip", "open_clip_torch")
    architecture, _, tag = name.partition("/")
    model, _, prepare = open_clip.create_model_and_transforms(architecture, pretrained=weights or tag or None)
    device, model = _on_device(model)
    if is_text:
        tokenizer = open_clip.get_tokenizer(architecture)
        return lambda texts: model.encode_text(tokenizer(texts).to(device))
    return lambda pictures: model.encode_image(torch.stack([prepare(picture) for picture in pictures]).to(device))


def _sentence_transformers(name: str, weights: str, is_text: bool) -> Embed:  # noqa: ARG001 - or of pictures
    package = _imported("sentence_transformers", "sentence-transformers")
    model = package.SentenceTransformer(weights or name, local_files_only=True)
    return lambda contents: model.encode(contents, batch_size=len(contents), show_progress_bar=False)


def _timm(name: str, weights: str, is_text: bool) -> Embed:  # noqa: ARG001 - it is false
    timm = _imported("timm", "timm")
    overlay = {"pretrained_cfg_overlay": {"file": weights}} if weights else {}
    device, model = _on_device(timm.create_model(name, pretrained=True, num_classes=0, **overlay))
    prepare = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
    return lambda pictures: model(torch.stack([prepare(picture) for picture in pictures]).to(device))


def _torchvision(name: str, weights: str, is_text: bool) -> Embed:  # noqa: ARG001 - it is false
    models = _imported("torchvision.models", "torchvision")
    if not weights:
        raise ConfigError(
            "torchvision would download the weights", at=f"torchvision:{name}", hint="name their file: NAME@FILE"
        )
    model = models.get_model(name, weights=None)
    model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    # Vectors are what the last layer gets.
    last = [key for key in ("fc", "classifier", "heads", "head") if hasattr(model, key)][0]  # noqa: RUF015
    setattr(model, last, torch.nn.Identity())
    device, model = _on_device(model)
    prepare = models.get_model_weights(name).DEFAULT.transforms()
    return lambda pictures: model(torch.stack([prepare(picture) for picture in pictures]).to(device))


def _on_device(model: Any) -> tuple[str, Any]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return device, model.eval().to(device)


def _imported(module: str, package: str) -> Any:
    from importlib import import_module

    added = [variable for variable in _OFFLINE if variable not in os.environ]
    os.environ |= dict.fromkeys(added, "1")
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"cannot import {module}: {error}", at=module, hint=f"install it: pip install {package}"
        ) from error
    finally:
        for variable in added:  # samples at the Hub are still read
            os.environ.pop(variable, None)


_HASHES = (PICTURE_HASH, "minhash")
_READY: dict[str, Callable[[str, str, bool], Embed]] = {
    "open_clip": _open_clip,
    "sentence-transformers": _sentence_transformers,
    "timm": _timm,
    "torchvision": _torchvision,
}
_KINDS: dict[str, tuple[str, ...]] = {
    PICTURE_HASH: ("image",),
    "minhash": ("text",),
    "open_clip": ("image", "text"),
    "sentence-transformers": ("text", "image"),
    "timm": ("image",),
    "torchvision": ("image",),
}
"""Kinds of parts that a model takes, the usual one first; all others take pictures, or else texts."""
