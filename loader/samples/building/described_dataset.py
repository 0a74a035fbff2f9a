"""A dataset described by a class, which ``dataset.yaml`` may name: the part of it that makes samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ...cached_property import cached_property
from ...errors import ConfigError
from ...format.documents.dataset_config import DatasetConfig, is_own_module
from ...format.nv_meta import FOLDER
from ...storage import EPath
from ..decoding.decoder import SampleDecoder
from .recipe import SampleRecipe, checked_sample_class, dataset_class_of, sample_class_of

if TYPE_CHECKING:
    from .sample_builder import SampleBuilder

__all__ = [
    "DescribedDataset",
    "FilteredSample",
    "OfTheRun",
    "arguments_of_config",
    "described_dataset_of",
    "made_of_class",
]

T_co = TypeVar("T_co", covariant=True)
T_made = TypeVar("T_made")

_CALLERS = ("path", "trust_code", "decoder", "worker_config", "training", "split_part", "split_config", "subset")
"""Arguments that a dataset must not decide: it could allow its own code to run."""

_SHARED = ("__key__", "__restore_key__", "__subflavors__", "__sources__", "__shard__")


FilteredSample = dict[str, Any]
"""What :meth:`DescribedDataset.load_sample` is given: the parts as bytes, ``__key__`` and others like it."""


class OfTheRun(Enum):
    """The default of an argument that the run decides: for the decoder, that of the task encoder."""

    DECODER = "the task encoder's decoder"


class DescribedDataset(Generic[T_co]):
    """What a dataset's samples are, in place of a ``dataset.yaml``, or named by one.

    Args:
        path: The dataset's folder.
        sample_type: The class of its samples; by default the class's ``__sample_type__``.
        field_map: Where the fields' values are: ``{"image": "jpg", "caption": "json[caption]"}``.
        sample_loader: Makes a dict of the fields of a dict of the parts; or ``"file.py:function"``, in ``.nv-meta``.
        part_filter: Names of the parts that are needed, or a function that tells; or ``"file.py:function"``.
        subflavors: Labels that every sample bears.
        decoder: Decodes the parts; None leaves them bytes.
        trust_code: Code and pickles of the dataset may run.
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
        decoder: SampleDecoder | OfTheRun | None = OfTheRun.DECODER,
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

    def sample_filter(self, key: str) -> bool:  # noqa: ARG002 - those who override it look at it
        """Tell whether a sample is used; override it to leave some out.

        Args:
            key: The sample's key, ``<shard>/<key>``.
        """
        return True

    def load_sample(self, sample: FilteredSample) -> Any:
        """Make a sample; override it to have another one made, or to change what this gives.

        Args:
            sample: The parts by name, as bytes; ``__key__``, ``__shard__``, ``__restore_key__``, ``__subflavors__`` and
                ``__sources__``.
        """
        return self.sample_builder.build(
            {name: value for name, value in sample.items() if name not in _SHARED},
            key=sample["__key__"],
            restore_key=sample.get("__restore_key__", ()),
            subflavors=sample.get("__subflavors__"),
            sources=sample.get("__sources__") or (),
        )

    @cached_property
    def sample_builder(self) -> SampleBuilder:
        """What makes samples of parts where :meth:`load_sample` is not overridden.

        Raises:
            TrustError: Code of the dataset is named, and the caller does not allow it to run.
            ConfigError: A file or function that is named is not there, or no sample class is.
        """
        from .sample_builder import SampleBuilder

        decoder = SampleDecoder() if isinstance(self.decoder, OfTheRun) else self.decoder
        return SampleBuilder(self.recipe, meta_folder=self.meta_folder, decoder=decoder, trust_code=self.trust_code)

    @property
    def meta_folder(self) -> Path:
        """The ``.nv-meta`` folder."""
        return Path(self.path / FOLDER)

    @property
    def recipe(self) -> SampleRecipe:
        """What was given, with the functions that it names.

        Raises:
            TrustError: Code of the dataset is named, and the caller does not allow it to run.
            ConfigError: A file or function that is named is not there, or no sample class is.
        """
        return SampleRecipe.of_arguments(
            self._sample_class(),
            field_map=self.field_map,
            sample_loader=self.sample_loader,
            part_filter=self.part_filter,
            subflavors=self.subflavors,
            meta_folder=self.meta_folder,
            trust_code=self.trust_code,
        )

    def _sample_class(self) -> type[Any]:
        sample_class = self.sample_type or self.__sample_type__
        if sample_class is None:
            raise ConfigError(
                f"{type(self).__name__} has no __sample_type__, and was given no sample_type",
                at=str(self.path),
                hint="set __sample_type__ in the class to the class of its samples",
            )
        return checked_sample_class(sample_class)


def described_dataset_of(
    config: DatasetConfig | None, *, meta_folder: Path, decoder: SampleDecoder | None, trust_code: bool
) -> DescribedDataset[Any] | None:
    """Make the dataset of the class that a ``dataset.yaml`` names, where it is one of the user's own.

    It is given the dataset's path and what else the file says, as keyword arguments.

    Returns:
        None where the file names none, or one that only has a ``__sample_type__``.

    Raises:
        TrustError: The class's module is not imported, and the caller does not trust the dataset.
        ConfigError: There is no such class, or it cannot be made.
    """
    if config is None or config.dataset_class is None or is_own_module(config.dataset_module):
        return None
    dataset_class = dataset_class_of(config, trust_code=trust_code)
    owner = next((base for base in getattr(dataset_class, "__mro__", ()) if "build" in vars(base)), None)
    if owner is not None and not is_own_module(owner.__module__):
        raise ConfigError(
            f"{config.dataset_module}.{config.dataset_class} has a build() of its own, which is not called when a "
            "dataset is loaded: the order of samples is known before any is read",
            at=str(meta_folder),
            hint="derive the class from DefaultDecoderWebdatasetFactory, and override load_sample or sample_filter",
        )
    if not (isinstance(dataset_class, type) and issubclass(dataset_class, DescribedDataset)):
        return None
    made = made_of_class(dataset_class, meta_folder, arguments_of_config(config, trust_code=trust_code))
    if isinstance(made.decoder, OfTheRun):
        made.decoder = decoder
    made.trust_code = made.trust_code or trust_code
    return made


def made_of_class(dataset_class: Callable[..., T_made], meta_folder: Path, arguments: Mapping[str, Any]) -> T_made:
    """Make a dataset of one of the user's own classes.

    Args:
        dataset_class: The class.
        meta_folder: The dataset's ``.nv-meta``.
        arguments: Those beside the path.

    Raises:
        ConfigError: It does not take them.
    """
    try:
        return dataset_class(EPath(meta_folder.parent), **arguments)
    except (TypeError, ValueError) as error:
        shown = ", ".join(["path", *(f"{name}=…" for name in arguments)])
        raise ConfigError(
            f"{dataset_class.__module__}.{dataset_class.__qualname__}({shown}) fails: {error}",
            at=str(meta_folder),
            hint="let its __init__ take (self, path, **kwargs) and hand kwargs on to super().__init__",
        ) from error


def arguments_of_config(config: DatasetConfig, *, trust_code: bool) -> dict[str, Any]:
    """Give what a ``dataset.yaml`` says of its samples as the keyword arguments of a dataset class.

    Raises:
        TrustError: The sample class's module is not imported, and the caller does not trust the dataset.
        ConfigError: There is no such class, or it is no sample class; or the file says what only the caller may.
    """
    for name in _CALLERS:
        if name in config.extra:
            raise ConfigError(f"dataset.yaml says {name!r}, which is for the caller to say", hint="remove it there")
    given: dict[str, Any] = dict(config.extra)
    if config.sample_type is not None:
        given["sample_type"] = sample_class_of(config, trust_code=trust_code)
    if config.field_map is not None:
        given["field_map"] = config.field_map.expressions()
    if config.sample_loader is not None:
        given["sample_loader"] = config.sample_loader
    if config.part_filter is not None:
        plain = isinstance(config.part_filter, str)
        given["part_filter"] = config.part_filter if plain else list(config.part_filter)
    if config.subflavors:
        given["subflavors"] = config.subflavors
    return given
