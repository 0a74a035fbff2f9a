"""The bytes of a sample's parts to a ``Sample``, as ``dataset.yaml`` says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...cached_property import cached_property
from ...errors import SampleError, SkipSample
from ...format.documents.dataset_config import DatasetConfig
from ...format.documents.field_map import FieldMap
from ..decoding.decoder import PartDecoders, SampleDecoder
from ..source_info import SourceInfo
from ..trust import is_trusted
from ..types import CrudeSample, Sample
from .dataset_code import MetaFunction
from .described_dataset import DescribedDataset, described_dataset_of
from .recipe import SampleRecipe, optional_fields

__all__ = ["RawSample", "SampleBuilder", "sources_of"]

_make_source = partial(tuple.__new__, SourceInfo)  # SourceInfo(…) takes twice as long


class RawSample(NamedTuple):
    """The bytes of one sample.

    Attributes:
        source: Number of its source in the chain.
        number: Its number in the dataset's index.
        shard: Name of its shard.
        key: Its key in the shard.
        parts: Bytes of its parts by name, in their order in the shard.
    """

    source: int
    number: int
    shard: str
    key: str
    parts: dict[str, bytes]


def sources_of(raw: RawSample, path: str) -> tuple[SourceInfo, ...]:
    """Return where the parts of a sample were read, in the dataset at ``path``."""
    _, index, shard, key, parts = raw
    if len(parts) == 1:
        (name,) = parts
        files: tuple[str, ...] = (f"{key}.{name}",)
    else:
        files = tuple([f"{key}.{name}" for name in parts])
    return (_make_source((path, index, shard, files)),)


class SampleBuilder:
    """Make samples of a dataset; picklable, so that worker processes can do it.

    Args:
        config: What ``dataset.yaml`` says; None makes crude samples. Or a dataset that is described by a class, or its
            recipe alone.
        meta_folder: The ``.nv-meta`` folder, where ``sample_loader.py`` is.
        decoder: Decodes the parts; None leaves them bytes.
        trust_code: Code and pickles of the dataset may run.

    Raises:
        TrustError: The dataset asks to run code, and the caller does not allow it.
        ConfigError: A class, file or function that ``dataset.yaml`` names is not there.
    """

    def __init__(
        self,
        config: DatasetConfig | DescribedDataset[Any] | SampleRecipe | None,
        *,
        meta_folder: Path,
        decoder: SampleDecoder | None,
        trust_code: bool = False,
    ) -> None:
        dataset: DescribedDataset[Any] | None = None
        if isinstance(config, SampleRecipe):
            recipe = config
        elif isinstance(config, DescribedDataset):
            dataset, recipe = config, config.recipe
        else:
            dataset = described_dataset_of(config, meta_folder=meta_folder, decoder=decoder, trust_code=trust_code)
            if dataset is None:
                recipe = SampleRecipe.of_config(config, meta_folder=meta_folder, trust_code=trust_code)
            else:
                recipe = dataset.recipe
        self._dataset = dataset
        self._decoder = decoder
        self._trusted = is_trusted(trust_code)
        self.subflavors = dict(recipe.subflavors)
        """Labels of all samples."""
        self._field_map = recipe.field_map
        self._class = recipe.sample_class
        self._crude = issubclass(self._class, CrudeSample)
        self._takes_shared = issubclass(self._class, Sample)
        self._names = frozenset() if self._crude else frozenset(known.name for known in fields(self._class))
        self._optional = frozenset() if self._crude else optional_fields(self._class)
        self._loader = recipe.loader
        self._is_plain = self._crude and self._loader is None and dataset is None  # a sample is its decoded parts
        self._filter = recipe.part_filter

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "decode_part"}

    @cached_property
    def decode_part(self) -> Callable[[str, bytes], Any] | None:
        """Decodes a part of a name; None leaves all parts bytes."""
        decoder = self._decoder
        if type(decoder) is SampleDecoder:
            return PartDecoders(decoder, trusted=self._trusted).decode
        return None if decoder is None else partial(decoder.decode_part, trust_code=self._trusted)

    @property
    def sample_class(self) -> type[Any]:
        """The class of the samples that are made; ``CrudeSample`` for crude ones."""
        return self._class

    def part_filter(self, part_name: str) -> bool:
        """Tell whether a part of this name is needed, and so must be read."""
        if self._filter is None:
            return True
        if isinstance(self._filter, frozenset):
            return part_name in self._filter
        return bool(self._filter(part_name))

    def raw_builder(self, path: str, subflavors: Mapping[str, Any]) -> Callable[[RawSample, tuple[Any, ...]], Any]:
        """Return a function that makes a sample of a raw sample and its restore key, as :meth:`build` does.

        Args:
            path: Path of the dataset, for ``__sources__``.
            subflavors: Labels of all samples; they win over those of ``dataset.yaml``.

        Returns:
            A function that raises what :meth:`build` raises.
        """
        if self._is_plain:
            return self._plain_builder(path, subflavors)

        def build(raw: RawSample, restore_key: tuple[Any, ...]) -> Any:
            return self.build(
                raw[4],
                key=f"{raw[2]}/{raw[3]}",
                restore_key=restore_key,
                subflavors=subflavors,
                sources=sources_of(raw, path),
            )

        return build

    def _plain_builder(self, path: str, subflavors: Mapping[str, Any]) -> Callable[[RawSample, tuple[Any, ...]], Any]:
        """Return a builder of plain crude samples: with all look-ups done, since many are only some hundred bytes."""
        sample_class, decode = self._class, self.decode_part
        labels = {**self.subflavors, **subflavors}

        def build(raw: RawSample, restore_key: tuple[Any, ...]) -> Any:
            _, index, shard, key, parts = raw
            if len(parts) == 1:  # sources_of, without the call
                (name,) = parts
                files: tuple[str, ...] = (f"{key}.{name}",)
            else:
                files = tuple([f"{key}.{name}" for name in parts])
            sources = (_make_source((path, index, shard, files)),)
            sample = sample_class()
            if decode is None:
                sample.update(parts)
            else:
                try:
                    for name, data in parts.items():
                        sample[name] = decode(name, data)
                except SampleError as error:
                    raise _at_sample(error, f"{shard}/{key}", sources) from error.__cause__
            sample["__key__"] = f"{shard}/{key}"
            sample["__restore_key__"] = restore_key
            sample["__subflavors__"] = labels.copy()
            sample["__sources__"] = sources
            sample["__shard__"] = shard
            return sample

        return build

    def build(
        self,
        parts: Mapping[str, bytes],
        *,
        key: str,
        restore_key: tuple[Any, ...] = (),
        subflavors: Mapping[str, Any] | None = None,
        sources: Sequence[SourceInfo] = (),
    ) -> Any:
        """Make one sample.

        Args:
            parts: The parts' bytes by name.
            key: The sample's key, ``<shard>/<key>``.
            restore_key: What finds the sample again.
            subflavors: Labels; they win over those of ``dataset.yaml``.
            sources: Where the parts lie.

        Returns:
            A sample of the dataset's type; a :class:`CrudeSample` for a crude dataset.

        Raises:
            SampleError: A part does not decode, or a field is missing; the message names both sample and part.
            TrustError: A part is a pickle, and the caller does not trust the dataset.
        """
        shared = {
            "__key__": key,
            "__restore_key__": restore_key,
            "__subflavors__": {**self.subflavors, **(subflavors or {})},
            "__sources__": tuple(sources),
        }
        if self._dataset is not None:
            if not self._dataset.sample_filter(key):
                raise SkipSample
            shard = sources[0].shard_name if sources else None
            return self._dataset.load_sample({**parts, **shared, "__shard__": shard})
        try:
            if self._field_map is not None:
                return self._fill(self._map(self._field_map, parts), shared)
            decoded = self._decode(parts)
            if self._loader is not None:
                return self._fill(self._load(_LoaderParts({**decoded, **shared})), shared)
            if self._crude:
                of_shard = {"__shard__": sources[0].shard_name} if sources else {}
                return self._class({**decoded, **shared, **of_shard})
            return self._fill({name: value for name, value in decoded.items() if name in self._names}, shared)
        except SampleError as error:
            raise _at_sample(error, key, sources) from error.__cause__

    def _map(self, field_map: FieldMap, parts: Mapping[str, bytes]) -> dict[str, Any]:
        decode = self.decode_part
        decoded: Mapping[str, Any] = parts if decode is None else _DecodedParts(parts, decode)
        return field_map.apply(decoded, optional=self._optional)

    def _decode(self, parts: Mapping[str, bytes]) -> dict[str, Any]:
        decode = self.decode_part
        if decode is None:
            return dict(parts)
        return {name: decode(name, data) for name, data in parts.items()}

    def _load(self, parts: _LoaderParts) -> Any:
        if self._loader is None:
            return parts
        try:
            return self._loader(parts)
        except _NoSuchPartError as error:
            there = ", ".join(name for name in parts if not name.startswith("__")) or "nothing"
            name = self._loader.name if isinstance(self._loader, MetaFunction) else _name_of(self._loader)
            found = f"{name}() asks for part {error.part!r}; it was given {there}"
            if self.part_filter(error.part):
                raise SampleError(found, part=error.part) from error
            found = f"{name}() asks for part {error.part!r}, which part_filter leaves out"
            raise SampleError(found, part=error.part, hint="let part_filter keep it, or ask for another") from error

    def _fill(self, values: Any, shared: dict[str, Any]) -> Any:
        if isinstance(values, Sample):
            return values  # a sample_loader may make the whole sample
        if not isinstance(values, Mapping):
            found = f"{self._loader} returned {type(values).__name__}"
            raise SampleError(f"{found}; expected a dict of the fields of {self._class.__name__}")
        if self._crude:
            return self._class({**values, **shared})
        given = {**values, **shared}
        if not self._takes_shared:
            # A plain dataclass: it has perhaps a __key__, but not all of what a Sample has.
            given = {name: value for name, value in given.items() if name not in shared or name in self._names}
        try:
            return self._class(**given)
        except TypeError as error:
            faults = [f"it has no field {name!r}" for name in given if name not in self._names]
            missing = sorted(self._names - self._optional - given.keys())
            faults += [f"field {name!r} is missing" for name in missing]
            if not faults:
                raise  # the class's own code
            raise SampleError(f"cannot make a {self._class.__name__}: {', '.join(faults)}") from error


class _NoSuchPartError(KeyError):
    """A ``sample_loader`` asks for a part that it was not given; to its own code this is any KeyError."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


class _LoaderParts(dict[str, Any]):
    """What a ``sample_loader`` is given: a dict that tells a missing part from a missing key inside one."""

    def __missing__(self, name: str) -> Any:
        raise _NoSuchPartError(str(name))


class _DecodedParts(Mapping[str, Any]):
    """The parts of one sample, each decoded when it is first asked for."""

    __slots__ = ("_decode", "_decoded", "_parts")

    def __init__(self, parts: Mapping[str, bytes], decode: Callable[[str, bytes], Any]) -> None:
        self._parts = parts
        self._decode = decode
        self._decoded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._decoded:
            self._decoded[name] = self._decode(name, self._parts[name])
        return self._decoded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _at_sample(error: SampleError, key: str, sources: Sequence[SourceInfo]) -> SampleError:
    """Return an error that names its sample."""
    source = "; ".join(map(str, sources)) or None
    return SampleError(f"sample {key!r}: {error.message}", key=key, part=error.part, source=source, hint=error.hint)
