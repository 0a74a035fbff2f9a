"""Base of dataset classes, which describe the samples of a dataset in code, and which ``dataset.yaml`` may name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from enum import Enum
from typing import Any, ClassVar, Generic, Self, TypeVar

from ...cached_property import cached_property
from ...errors import ConfigError
from ...format.documents.dataset_config import DatasetConfig, given_values
from ...format.nv_meta import FOLDER
from ...renamed_parameters import renamed_parameters
from ...storage import EPath
from ..decoding.decoder import AnyDecoder, SampleDecoder
from .dataset_code import DatasetCode, SampleRecipe, checked_sample_class, sample_class_of
from .sample_builder import SampleBuilder

T_co = TypeVar("T_co", covariant=True)
T_dataset = TypeVar("T_dataset")

RESERVED_ARGUMENTS = (
    "path",
    "trust_code",
    "decoder",
    "worker_config",
    "training",
    "split_part",
    "split_config",
    "meta_folder",
    "subset",
)
"""Arguments that only the caller may set: a dataset could trust its own code otherwise."""

_SHARED = ("__key__", "__restore_key__", "__subflavors__", "__sources__", "__shard__")


FilteredSample = dict[str, Any]
"""The argument of :meth:`DescribedDataset.load_sample`: the parts as bytes, ``__key__`` and other shared fields."""


class OfTheRun(Enum):
    """Defaults of arguments that the run sets: the decoder is the task encoder's."""

    DECODER = "the task encoder's decoder"


class DescribedDataset(Generic[T_co]):
    """The samples of a dataset, described by a class instead of a ``dataset.yaml``, or by a class that it names.

    Args:
        path: The dataset's folder.
        sample_type: The class of its samples; by default the class's ``__sample_type__``.
        field_map: The part, or the value in a part, of each field: ``{"image": "jpg", "caption": "json[caption]"}``.
        sample_loader: Builds a dict of the fields from a dict of the parts; or ``"file.py:function"`` in ``.nv-meta``.
        part_filter: Names of the parts to read, or a predicate on part names; or ``"file.py:function"``.
        subflavors: Labels of every sample.
        decoder: Decodes the parts; None keeps them as bytes. Any function from a dict of the parts to one of their
            decoded values may replace a :class:`SampleDecoder`.
        trust_code: Allow code and pickles of the dataset to run.
    """

    __sample_type__: ClassVar[type[Any] | None] = None

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sample_type: type[T_co] | None = None,
        field_map: Mapping[str, str] | None = None,
        sample_loader: str | Callable[..., Any] | None = None,
        part_filter: str | Sequence[str] | Callable[[str], Any] | None = None,
        subflavors: Mapping[str, Any] | None = None,
        decoder: AnyDecoder | OfTheRun | None = OfTheRun.DECODER,
        trust_code: bool = False,
    ) -> None:
        self.path = EPath(path)
        self.sample_type = sample_type
        self.field_map = field_map
        self.sample_loader = sample_loader
        self.part_filter = part_filter
        self.subflavors = dict(subflavors or {})
        self.decoder = decoder
        self.trust_code = trust_code

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "sample_builder"}

    @classmethod
    def described_by(
        cls,
        config: DatasetConfig,
        code: DatasetCode,
        *,
        dataset_path: str | os.PathLike[str] | None = None,
        decoder: AnyDecoder | None,
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Create the object of a class that a ``dataset.yaml`` names.

        Its arguments are the dataset's path and, as keywords, the other values of the file, and the caller's
        ``options`` that the file does not set.

        Raises:
            TrustError: The sample class's module is not imported, and the caller does not trust the dataset.
            ConfigError: The constructor fails.
        """
        arguments = {**(options or {}), **arguments_of_config(config, trust_code=code.trust_code)}
        dataset = instantiate(cls, dataset_path or EPath(code.folder).parent, arguments)
        dataset.set_meta_folder(code.folder)
        if isinstance(dataset.decoder, OfTheRun):
            dataset.decoder = decoder
        dataset.trust_code = dataset.trust_code or code.trust_code
        return dataset

    def without_decoder(self) -> Self:
        """Return a copy whose parts are final values, as in Parquet files."""
        other = copy(self)
        other.__dict__.pop("sample_builder", None)
        other.decoder = None
        return other

    def sample_filter(self, key: str) -> bool:  # noqa: ARG002 - overrides use it
        """Return True if a sample is used; override it to skip samples.

        Args:
            key: The sample's key: ``<shard>/<key>``, or ``<key>`` with ``key_format="key"``.
        """
        return True

    @renamed_parameters(sample="raw_data")
    def load_sample(self, raw_data: FilteredSample) -> Any:
        """Build a sample; override it to build another one, or to change the result.

        Args:
            raw_data: The parts by name, as bytes; ``__key__``, ``__shard__``, ``__restore_key__``, ``__subflavors__``
                and ``__sources__``.
        """
        return self.sample_builder.build(
            {name: value for name, value in raw_data.items() if name not in _SHARED},
            key=raw_data["__key__"],
            restore_key=raw_data.get("__restore_key__", ()),
            subflavors=raw_data.get("__subflavors__"),
            sources=raw_data.get("__sources__") or (),
        )

    @cached_property
    def sample_builder(self) -> SampleBuilder:
        """Builder of samples for the default :meth:`load_sample`.

        Raises:
            TrustError: Code of the dataset is named, and the caller does not trust the dataset.
            ConfigError: A file or function that is named does not exist, or there is no sample class.
        """
        return SampleBuilder(self.recipe, DatasetCode(self.meta_folder, self.trust_code), decoder=self._decoder)

    @property
    def _decoder(self) -> AnyDecoder | None:
        """The decoder under its name in megatron-energon, where subclasses set it in their ``__init__``."""
        return SampleDecoder() if isinstance(self.decoder, OfTheRun) else self.decoder

    @_decoder.setter
    def _decoder(self, decoder: AnyDecoder | None) -> None:
        self.decoder = decoder

    _nv_meta: EPath | None = None

    @property
    def meta_folder(self) -> EPath:
        """The ``.nv-meta`` folder, or the folder that is used instead."""
        return self.path / FOLDER if self._nv_meta is None else self._nv_meta

    def set_meta_folder(self, folder: str | os.PathLike[str]) -> None:
        """Set the folder to use instead of ``.nv-meta``."""
        self._nv_meta = EPath(folder)

    @property
    def recipe(self) -> SampleRecipe:
        """The recipe of the arguments, with the functions that they name imported.

        Raises:
            TrustError: Code of the dataset is named, and the caller does not trust the dataset.
            ConfigError: A file or function that is named does not exist, or there is no sample class.
        """
        return SampleRecipe.of_arguments(
            self._sample_class(),
            field_map=self.field_map,
            sample_loader=self.sample_loader,
            part_filter=self.part_filter,
            subflavors=self.subflavors,
            code=DatasetCode(self.meta_folder, self.trust_code),
        )

    def _sample_class(self) -> type[Any]:
        sample_class = self.sample_type or self.__sample_type__
        if sample_class is None:
            raise ConfigError(
                f"{type(self).__name__} has no __sample_type__, and no sample_type was passed",
                at=str(self.path),
                hint="set __sample_type__ in the class to the class of its samples",
            )
        return checked_sample_class(sample_class)


def instantiate(
    dataset_class: Callable[..., T_dataset], path: str | os.PathLike[str], arguments: Mapping[str, Any]
) -> T_dataset:
    """Create an object of a user's dataset class."""
    try:
        return dataset_class(EPath(path), **arguments)
    except (TypeError, ValueError) as error:
        shown = ", ".join(["path", *(f"{name}=…" for name in arguments)])
        raise ConfigError(
            f"{dataset_class.__module__}.{dataset_class.__qualname__}({shown}) fails: {error}",
            at=str(path),
            hint="let its __init__ take (self, path, **kwargs) and pass kwargs to super().__init__",
        ) from error


def arguments_of_config(config: DatasetConfig, *, trust_code: bool) -> dict[str, Any]:
    """Return the values of a ``dataset.yaml`` as keyword arguments of a dataset class.

    Raises:
        TrustError: The sample class's module is not imported, and the caller does not trust the dataset.
    """
    # Values that the library does not know are arguments of the user's class.
    given: dict[str, Any] = {**config.extra}
    for name in RESERVED_ARGUMENTS:
        if name in given:
            raise ConfigError(f"dataset.yaml sets {name!r}, which only the caller may set", hint="remove it there")
    # Known values are passed under the names of the constructor, if they are set.
    if config.sample_type is not None:
        given["sample_type"] = sample_class_of(config, trust_code=trust_code)
    return given | given_values(config)
