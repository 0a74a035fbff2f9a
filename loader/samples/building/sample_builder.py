"""Build samples from the bytes of their parts, as ``dataset.yaml`` or a dataset class describes them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from typing import Any, NamedTuple

from ...cached_property import cached_property
from ...errors import SampleError, SkipSample, StorageError
from ...format.documents.dataset_config import DatasetConfig, is_own_module
from ...format.documents.field_map import MissingPartError
from ...format.documents.providers import KeyFormat
from ...format.jsonl.lines import BYTE_ORDER_MARK
from ...storage import EPath
from ..decoding.decoder import AnyDecoder, SampleDecoder, part_function, whole_sample_decoder
from ..decoding.part_decode import QUICK_DECODERS
from ..source_info import SourceInfo
from ..types import ConversationSample, CrudeSample, Sample
from .dataset_code import DatasetCode, MetaFunction, SampleRecipe, described_by

_make_source = partial(tuple.__new__, SourceInfo)  # SourceInfo(…) takes twice as long


class RawSample(NamedTuple):
    """The bytes of one sample.

    Attributes:
        source: Number of its source in the chain.
        number: Its number in the dataset's index.
        shard: Name of its shard.
        key: Its key in the shard.
        part: Name of its part if it was read as one range of bytes and has one; None for all others. So it follows
            from the sample alone, not from those that are read with it, and a line of JSONL always has it.
        data: Bytes of the part, or of all parts by name, in their order in the shard; what a record holds, such as a
            row of Parquet.
    """

    source: int
    number: int
    shard: str
    key: str
    part: str | None
    data: Any

    @property
    def parts(self) -> dict[str, Any]:
        return self.data if self.part is None else {self.part: self.data}


def sources_of(raw: RawSample, path: str) -> tuple[SourceInfo, ...]:
    """Return where the parts of a sample were read, in the dataset at ``path``."""
    _, index, shard, key, part, data = raw
    files = tuple([f"{key}.{name}" for name in data]) if part is None else (f"{key}.{part}",)
    return (_make_source((path, index, shard, files)),)


Build = Callable[[RawSample, tuple[Any, ...]], Any]
"""Function that builds a sample from a raw sample and its restore key."""


class SampleBuilder:
    """Build the samples of a dataset; picklable, so that worker processes can use it.

    Args:
        config: The content of ``dataset.yaml``, a :class:`.DescribedDataset`, or a recipe; None builds crude samples.
        code: The dataset's files of code, and if they and its pickles may run.
        decoder: Decodes the parts; None keeps them as bytes.
        key_format: Form of the samples' ``__key__``.
        sample_type: Class of the samples of a dataset without a description.
        options: The caller's arguments for what the config leaves open.
        dataset_path: Folder of the dataset; by default the one that contains ``.nv-meta``.

    Raises:
        TrustError: The dataset names code to run, and the caller does not trust it.
        ConfigError: A class, file or function that ``dataset.yaml`` names does not exist.
    """

    def __init__(
        self,
        config: DatasetConfig | SampleRecipe | Any,
        code: DatasetCode,
        *,
        decoder: AnyDecoder | None,
        key_format: KeyFormat = "shard/key",
        sample_type: type[Any] | None = None,
        options: Mapping[str, Any] | None = None,
        dataset_path: str | os.PathLike[str] | None = None,
    ) -> None:
        # A dataset class that the user wrote builds the samples; otherwise, a recipe says how.
        self._dataset: Any = None  # a DescribedDataset
        if isinstance(config, DatasetConfig) and config.dataset_class and not is_own_module(config.dataset_module):
            self._dataset = described_by(config, code, dataset_path=dataset_path, decoder=decoder, options=options)
        elif config is not None and not isinstance(config, DatasetConfig | SampleRecipe):
            self._dataset = config
        if self._dataset is not None:
            recipe: SampleRecipe = self._dataset.recipe
        elif isinstance(config, SampleRecipe):
            recipe = config
        else:
            recipe = SampleRecipe.of_config(config, code)
            if options:
                of_caller = sample_type if config is None else None
                recipe = recipe.completed(of_caller, options, code)
        # What every sample needs is looked up once.
        self._decode_sample = whole_sample_decoder(decoder)
        self._decoder: Any = None if self._decode_sample is not None else decoder
        self._trust_code = code.trust_code
        self.subflavors = dict(recipe.subflavors)
        """Labels of all samples."""
        self._field_map = recipe.field_map
        self.sample_class = recipe.sample_class
        """The class of the samples; ``CrudeSample`` for crude datasets."""
        self.has_dataset_class = self._dataset is not None
        """True if a dataset class of the user's builds the samples; it receives the caller's options."""
        self._crude = issubclass(self.sample_class, CrudeSample)
        self._takes_shared = issubclass(self.sample_class, Sample)
        self._make: Callable[..., Any] = (
            self.sample_class.from_fields if issubclass(self.sample_class, ConversationSample) else self.sample_class
        )
        known = () if self._crude else fields(self.sample_class)
        self._names = frozenset(each.name for each in known)
        self._optional = frozenset(
            each.name for each in known if each.default is not MISSING or each.default_factory is not MISSING
        )
        self._loader = recipe.loader
        self._filter = recipe.part_filter
        self._short_keys = key_format == "key"
        # A plain sample is its decoded parts.
        self._is_plain = self._crude and not self._loader and self._dataset is None and self._decode_sample is None
        self.part_names: Callable[[int], Collection[str]] | None = None
        """Returns the names of all parts of a sample of the dataset by its number, for messages."""
        self.config_file: str | None = None
        """The file with the field map, for messages."""

    def __getstate__(self) -> dict[str, Any]:
        return {**{name: value for name, value in self.__dict__.items() if name != "decode_part"}, "part_names": None}

    @cached_property
    def decode_part(self) -> Callable[[str, bytes], Any] | None:
        """Function that decodes a part, given its name and bytes; None keeps all parts as bytes."""
        return part_function(self._decoder, trust_code=self._trust_code)

    def part_filter(self, part_name: str) -> bool:
        """Return True if parts of this name must be read."""
        if self._filter is None:
            return True
        if isinstance(self._filter, frozenset):
            return part_name in self._filter
        return bool(self._filter(part_name))

    def key_of(self, raw: RawSample) -> str:
        """Return the ``__key__`` of a raw sample."""
        return raw.key if self._short_keys else f"{raw.shard}/{raw.key}"

    def raw_builder(
        self,
        path: str,
        subflavors: Mapping[str, Any],
        *,
        values: Callable[[Mapping[str, Any], int], dict[str, Any]] | None = None,
        are_lines: bool = False,
    ) -> Build:
        """Return a function that builds a sample from a raw sample and its restore key, as :meth:`build` does.

        Args:
            path: EPath of the dataset, for ``__sources__``.
            subflavors: Labels of all samples; they override the labels of ``dataset.yaml``.
            values: Converts the stored parts of a sample, by its number; None if they are decoded as they are.
            are_lines: The samples are lines of JSONL files.

        Returns:
            A function that raises the errors of :meth:`build`.
        """
        if self._is_plain and are_lines and self._filter is None:
            return self._plain_builder(path, subflavors, are_lines=True)
        make, short_keys = self.build, self._short_keys

        def build_general(raw: RawSample, restore_key: tuple[Any, ...]) -> Any:
            _, _, shard, key, part, data = raw
            parts = data if part is None else {part: data}
            full_key = key if short_keys else f"{shard}/{key}"
            sources = sources_of(raw, path)
            return make(parts, key=full_key, restore_key=restore_key, subflavors=subflavors, sources=sources)

        build = self._plain_builder(path, subflavors) if self._is_plain else build_general
        if values is None:
            return build
        convert, wanted = values, self.part_filter

        def build_record(raw: RawSample, restore_key: tuple[Any, ...]) -> Any:
            source, index, shard, key, _, _ = raw
            parts = {name: value for name, value in convert(raw.parts, index).items() if wanted(name)}
            return build(RawSample(source, index, shard, key, None, parts), restore_key)

        return build_record

    def _plain_builder(self, path: str, subflavors: Mapping[str, Any], *, are_lines: bool = False) -> Build:
        """Return a builder of plain crude samples.

        All look-ups are done beforehand: a crude sample may have only some hundred bytes, so fixed costs dominate.
        """
        sample_class, decode, short_keys = self.sample_class, self.decode_part, self._short_keys
        # Quick decoders save calls; what they refuse, decode_part takes, or explains.
        quick = QUICK_DECODERS if type(self._decoder) is SampleDecoder else {}
        labels = {**self.subflavors, **subflavors}

        def build(raw: RawSample, restore_key: tuple[Any, ...]) -> Any:
            _, index, shard, key, part, data = raw
            if are_lines:  # what LineFile.values does, without the call
                data = data.strip() if key != "0" else data.strip().removeprefix(BYTE_ORDER_MARK)
            full_key = f"{shard}/{key}"
            files = (f"{key}.{part}",) if part is not None else tuple([f"{key}.{name}" for name in data])
            sources = (_make_source((path, index, shard, files)),)
            # Decode the parts: most samples have one, of a kind that a quick decoder takes.
            sample = sample_class()
            if decode is None:
                sample.update(data if part is None else {part: data})
            else:
                try:
                    if part is None:
                        for name, content in data.items():
                            sample[name] = decode(name, content)
                    elif part in quick:
                        try:
                            sample[part] = quick[part](data)
                        except Exception:  # noqa: BLE001 - decode finds it again
                            sample[part] = decode(part, data)
                    else:
                        sample[part] = decode(part, data)
                except SampleError as error:
                    raise name_sample(error, full_key, sources) from error.__cause__
            # Add the shared fields.
            sample["__key__"] = key if short_keys else full_key
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
        """Build one sample, by the dataset class's ``load_sample`` where the dataset has a class.

        Args:
            parts: The parts' bytes by name.
            key: The sample's key: ``<shard>/<key>``, or ``<key>`` with ``key_format="key"``.
            restore_key: Identifies the sample, so that it can be loaded again.
            subflavors: Labels; they override the labels of ``dataset.yaml``.
            sources: Where the parts were read.

        Returns:
            A sample of the dataset's type; a :class:`CrudeSample` for a crude dataset.

        Raises:
            SampleError: A part does not decode, or a field is missing; the message names both sample and part.
            TrustError: A part is a pickle, and the caller does not trust the dataset.
            SkipSample: The dataset class's ``sample_filter`` excludes the sample.
        """
        shared = {
            "__key__": key,
            "__restore_key__": restore_key,
            "__subflavors__": {**self.subflavors, **(subflavors or {})},
            "__sources__": tuple(sources),
        }
        return self._build(parts, shared) if self._dataset is None else self._load_sample(parts, shared)

    def _load_sample(self, parts: Mapping[str, bytes], shared: dict[str, Any]) -> Any:
        dataset: Any = self._dataset
        if not dataset.sample_filter(shared["__key__"]):
            raise SkipSample
        sources = shared["__sources__"]
        return dataset.load_sample({**parts, **shared, "__shard__": sources[0].shard_name if sources else None})

    def _build(self, parts: Mapping[str, bytes], shared: dict[str, Any]) -> Any:
        key, sources, decode = shared["__key__"], shared["__sources__"], self.decode_part
        try:
            # A decoder of whole samples, and a field map, replace the steps below.
            if self._decode_sample is not None:
                parts = self._decode_whole(parts, shared)
            if self._field_map is not None:
                return self._fill(self._field_map.apply(parts, decode, optional=self._optional), shared)
            decoded = dict(parts) if decode is None else {name: decode(name, data) for name, data in parts.items()}
            # A sample loader gets all parts; else the fields are the parts of the same names.
            if self._loader is not None:
                given = {**decoded, **shared, "__shard__": sources[0].shard_name if sources else None}
                values = self._load(self._loader, _LoaderParts(given))
                if isinstance(values, Mapping) and "__key__" in values:
                    shared["__key__"] = values["__key__"]
                return self._fill(values, shared)
            if self._crude:
                of_shard = {"__shard__": sources[0].shard_name} if sources else {}
                return self.sample_class({**decoded, **shared, **of_shard})
            return self._fill({name: value for name, value in decoded.items() if name in self._names}, shared)
        except MissingPartError as error:
            raise name_sample(self._with_all_parts(error, parts, sources), key, sources) from error.__cause__
        except SampleError as error:
            raise name_sample(error, key, sources) from error.__cause__

    def _with_all_parts(
        self, error: MissingPartError, parts: Mapping[str, bytes], sources: Sequence[SourceInfo]
    ) -> SampleError:
        """Return the error with the names of all parts of the sample, also of parts that were not read."""
        names: Collection[str] = parts
        index = sources[0].index if sources else None
        if self.part_names is not None and isinstance(index, int):
            names = self.part_names(index)
        file = None if self.config_file is None else _place_of_field(self.config_file, error.field)
        return MissingPartError(error.field, error.accesses, names, file=file)

    def _decode_whole(self, parts: Mapping[str, bytes], shared: dict[str, Any]) -> dict[str, Any]:
        decode: Any = self._decode_sample
        sources = shared["__sources__"]
        decoded = decode({**parts, **shared, "__shard__": sources[0].shard_name if sources else None})
        return {name: value for name, value in decoded.items() if name not in shared and name != "__shard__"}

    def _load(self, loader: Callable[..., Any], parts: _LoaderParts) -> Any:
        try:
            return loader(parts)
        except _NoSuchPartError as error:
            # Name the function and say why the part is missing: the sample lacks it, or the filter excludes it.
            available = ", ".join(name for name in parts if not name.startswith("__")) or "none"
            named = getattr(loader, "__qualname__", repr(loader))
            name = loader.name if isinstance(loader, MetaFunction) else named
            if self.part_filter(error.part):
                message = f"{name}() reads part {error.part!r}, which is missing; parts: {available}"
                raise SampleError(message, part=error.part) from error
            message = f"{name}() reads part {error.part!r}, which part_filter excludes"
            raise SampleError(message, part=error.part, hint="include it in part_filter, or read another") from error

    def _fill(self, values: Any, shared: dict[str, Any]) -> Any:
        if isinstance(values, Sample):
            return values  # a sample_loader may return a complete sample
        if not isinstance(values, Mapping):
            message = f"{self._loader} returned {type(values).__name__}"
            raise SampleError(f"{message}; expected a dict of the fields of {self.sample_class.__name__}")
        if self._crude:
            return self.sample_class({**values, **shared})
        # The shared fields override what the loader returned.
        given = {**values, **shared}
        given.pop("__shard__", None)  # a sample_loader may return its argument, which has it
        if not self._takes_shared:
            # A plain dataclass may have a __key__, but not all shared fields of a Sample.
            given = {name: value for name, value in given.items() if name not in shared or name in self._names}
        try:
            return self._make(**given)
        except TypeError as error:
            # The constructor's own message names no sample: list what does not fit.
            faults = [f"it has no field {name!r}" for name in given if name not in self._names]
            missing = sorted(self._names - self._optional - given.keys())
            faults += [f"field {name!r} is missing" for name in missing]
            if not faults:
                raise  # the class's own code
            raise SampleError(f"cannot build a {self.sample_class.__name__}: {', '.join(faults)}") from error


def name_sample(error: SampleError, key: str, sources: Sequence[SourceInfo]) -> SampleError:
    """Return a copy of an error about a part that also names the sample and its sources."""
    source = "; ".join(map(str, sources)) or None
    return SampleError(f"sample {key!r}: {error.message}", key=key, part=error.part, source=source, hint=error.hint)


def _place_of_field(path: str, field_name: str) -> str:
    """Return the path of a ``dataset.yaml``, and the line of a field in its field map if it is found."""
    file = EPath(path)
    try:
        lines = file.read_bytes().decode("utf-8", "replace").splitlines()
    except (OSError, StorageError):
        return str(file)
    of_field = re.compile(rf"""\s+["']?{re.escape(field_name)}["']?\s*:""")
    of_map = re.compile(r"""\s*["']?field_map["']?\s*:""")
    start = next((row for row, line in enumerate(lines) if of_map.match(line)), len(lines))
    field_row = next((row for row in range(start + 1, len(lines)) if of_field.match(lines[row])), None)
    return str(file) if field_row is None else f"{file}, line {field_row + 1}"


class _NoSuchPartError(KeyError):
    """A ``sample_loader`` reads a part that is missing; its own code sees an ordinary KeyError."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


class _LoaderParts(dict[str, Any]):
    """The argument of a ``sample_loader``: a dict that separates missing parts from missing keys inside a part.

    Parts are also found by ``key.part`` and ``shard.tar/key.part``, whatever form ``__key__`` has.
    """

    def __missing__(self, name: str) -> Any:
        bare = self.get("__key__", "").removeprefix(f"{self.get('__shard__')}/")
        part = str(name).removeprefix(f"{self.get('__shard__')}/").removeprefix(f"{bare}.")
        if bare and part != name and part in self:
            return self[part]
        raise _NoSuchPartError(str(name))
