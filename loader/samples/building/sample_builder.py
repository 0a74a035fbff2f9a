"""Build samples from the bytes of their parts, as ``dataset.yaml`` or a dataset class describes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ...errors import SampleError, SkipSample
from ...format.documents.dataset_config import DatasetConfig, is_own_module
from ...format.documents.load_request import KeyFormat
from ..decoding.decoder import AnyDecoder
from ..source_info import SourceInfo
from .basic_builder import BasicSampleBuilder, name_sample
from .described_dataset import DescribedDataset, described_dataset_of
from .recipe import SampleRecipe

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


def _with_short_key(
    build: Callable[[RawSample, tuple[Any, ...]], Any],
) -> Callable[[RawSample, tuple[Any, ...]], Any]:
    """Return a builder of crude samples whose ``__key__`` has no shard."""

    def build_with_short_key(raw: RawSample, restore_key: tuple[Any, ...]) -> Any:
        sample = build(raw, restore_key)
        sample["__key__"] = raw.key
        return sample

    return build_with_short_key


class SampleBuilder(BasicSampleBuilder):
    """Build the samples of a dataset; picklable, so that worker processes can use it.

    Args:
        config: The content of ``dataset.yaml``, a dataset class's object, or a recipe; None builds crude samples.
        meta_folder: The ``.nv-meta`` folder, which contains ``sample_loader.py``.
        decoder: Decodes the parts; None keeps them as bytes.
        trust_code: Allow code and pickles of the dataset to run.
        key_format: Form of the samples' ``__key__``.
        sample_type: Class of the samples of a dataset without a description.
        options: The caller's arguments for what the config leaves open.
        dataset_path: Folder of the dataset; by default the one that contains ``meta_folder``.

    Raises:
        TrustError: The dataset names code to run, and the caller does not trust it.
        ConfigError: A class, file or function that ``dataset.yaml`` names does not exist.
    """

    def __init__(
        self,
        config: DatasetConfig | DescribedDataset[Any] | SampleRecipe | None,
        *,
        meta_folder: os.PathLike[str],
        decoder: AnyDecoder | None,
        trust_code: bool = False,
        key_format: KeyFormat = "shard/key",
        sample_type: type[Any] | None = None,
        options: Mapping[str, Any] | None = None,
        dataset_path: os.PathLike[str] | None = None,
    ) -> None:
        dataset: DescribedDataset[Any] | None = None
        if isinstance(config, SampleRecipe):
            recipe = config
        elif isinstance(config, DescribedDataset):
            dataset, recipe = config, config.recipe
        else:
            if config is not None and config.dataset_class and not is_own_module(config.dataset_module):
                dataset = described_dataset_of(
                    config,
                    meta_folder=meta_folder,
                    dataset_path=dataset_path,
                    decoder=decoder,
                    trust_code=trust_code,
                    options=options,
                )
            if dataset is None:
                recipe = SampleRecipe.of_config(config, meta_folder=meta_folder, trust_code=trust_code)
                if options:
                    recipe = recipe.completed(
                        sample_type if config is None else None, options, meta_folder=meta_folder, trust_code=trust_code
                    )
            else:
                recipe = dataset.recipe
        super().__init__(recipe, decoder=decoder, trust_code=trust_code)
        self._dataset = dataset
        self._short_keys = key_format == "key"
        # A sample is its decoded parts.
        self._is_plain = self._crude and self._loader is None and dataset is None and self._decode_sample is None

    def raw_builder(
        self,
        path: str,
        subflavors: Mapping[str, Any],
        *,
        values: Callable[[Mapping[str, Any], int], dict[str, Any]] | None = None,
    ) -> Callable[[RawSample, tuple[Any, ...]], Any]:
        """Return a function that builds a sample from a raw sample and its restore key, as :meth:`build` does.

        Args:
            path: EPath of the dataset, for ``__sources__``.
            subflavors: Labels of all samples; they override those of ``dataset.yaml``.
            values: Converts the stored parts of a sample, by its number; None if they are decoded as they are.

        Returns:
            A function that raises the errors of :meth:`build`.
        """
        if values is not None:
            build_values, convert = self.raw_builder(path, subflavors), values

            def build_record(raw: RawSample, restore_key: tuple[Any, ...]) -> Any:
                parts = {name: part for name, part in convert(raw.parts, raw.number).items() if self.part_filter(name)}
                return build_values(raw._replace(parts=parts), restore_key)

            return build_record
        if self._is_plain:
            plain = self._plain_builder(path, subflavors)
            return _with_short_key(plain) if self._short_keys else plain
        build_parts = super().build if self._dataset is None else self.build
        short_keys = self._short_keys

        def build(raw: RawSample, restore_key: tuple[Any, ...]) -> Any:
            return build_parts(
                raw[4],
                key=raw[3] if short_keys else f"{raw[2]}/{raw[3]}",
                restore_key=restore_key,
                subflavors=subflavors,
                sources=sources_of(raw, path),
            )

        return build

    @property
    def has_dataset_class(self) -> bool:
        """True if a dataset class of the user's builds the samples; it receives the caller's options."""
        return self._dataset is not None

    def key_of(self, raw: RawSample) -> str:
        """Return the ``__key__`` of a raw sample."""
        return raw.key if self._short_keys else f"{raw.shard}/{raw.key}"

    def _plain_builder(self, path: str, subflavors: Mapping[str, Any]) -> Callable[[RawSample, tuple[Any, ...]], Any]:
        """Return a builder of plain crude samples.

        All look-ups are done beforehand: a crude sample may have only some hundred bytes, so fixed costs dominate.
        """
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
                    raise name_sample(error, f"{shard}/{key}", sources) from error.__cause__
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
        """Build one sample, by the dataset class's ``load_sample`` where the dataset has a class.

        The arguments, the result and the errors are those of :meth:`.BasicSampleBuilder.build`.

        Raises:
            SkipSample: The dataset class's ``sample_filter`` excludes the sample.
        """
        dataset = self._dataset
        if dataset is None:
            return super().build(parts, key=key, restore_key=restore_key, subflavors=subflavors, sources=sources)
        if not dataset.sample_filter(key):
            raise SkipSample
        return dataset.load_sample(
            {
                **parts,
                "__key__": key,
                "__restore_key__": restore_key,
                "__subflavors__": {**self.subflavors, **(subflavors or {})},
                "__sources__": tuple(sources),
                "__shard__": sources[0].shard_name if sources else None,
            }
        )
