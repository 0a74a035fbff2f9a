"""Factories for datasets of shards: to derive from, to name in ``dataset.yaml``, and to build a chain on by hand."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar, Unpack

from ..cached_property import cached_property
from ..dataset.opening import folder_at
from ..engine.run import Engine
from ..errors import ConfigError, EmptyDatasetError, Fault
from ..format.dataset_ref import DatasetRef
from ..format.documents.brace_patterns import expand_pattern
from ..format.documents.messages import did_you_mean
from ..format.documents.providers import LoadRequest
from ..format.media.metadata import MediaFilter
from ..format.nv_meta import FOLDER, SPLIT_YAML
from ..format.shard_content import iter_shard_content
from ..pipeline.reading.dataset_source import DatasetSource
from ..prepare.plan import PreparePlan, PrepareProgress, PrepareReport, SplitRequest
from ..prepare.run import run_prepare
from ..prepare.shards import find_shards
from ..prepare.split import plan_split
from ..progress_bar import progress_bar
from ..samples.building.described_dataset import DescribedDataset, OfTheRun
from ..samples.decoding.decoder import AnyDecoder
from ..storage import EPath, Storage
from ..storage.remote import use_storage_options
from ..stores.dataset_file_store import DatasetFileStore
from ..stores.file_store import FileStore
from ..training.datasets.dataset_factory import BaseCoreDatasetFactory, PassKeywords


class PrepareKeywords(TypedDict, total=False):
    """Arguments of :func:`prepare_dataset`, for the method of dataset classes that passes them on."""

    split_parts_ratio: Sequence[tuple[str, float]] | None
    split_parts_patterns: Sequence[tuple[str, str]] | None
    split_config: str
    shuffle_seed: int | None
    progress_fn: ProgressFunction | None
    progress: bool
    workers: int
    tar_index_only: bool
    media_filter: MediaFilter | None
    fix_duplicates: bool


class WebdatasetPreparator:
    """Methods that prepare a folder of shards from a script; all dataset classes of shards inherit them."""

    @staticmethod
    def iter_dataset_content(
        path: str | os.PathLike[str], extract_keys: Container[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Iterate over the samples of a shard, without an index.

        Args:
            path: The shard.
            extract_keys: Names of the parts to read; other parts are only listed.

        Yields:
            The parts of each sample by name: bytes, or None for parts that are not read.

        Raises:
            FormatError: The shard is damaged.
            StorageError: It cannot be read.
        """
        return iter_shard_content(path, extract_keys)

    @classmethod
    def prepare_dataset(
        cls,
        parent_path: str | os.PathLike[str],
        paths: Sequence[str | os.PathLike[str]],
        *,
        index_sqlite_tmp_path: str | Path | None = None,  # noqa: ARG003 - files are never written in place
        **options: Unpack[PrepareKeywords],
    ) -> set[str]:
        """Index and split shards as ``energon prepare`` does, but write no ``dataset.yaml``.

        Args:
            parent_path: Folder of the dataset.
            paths: The shards, relative to the folder; braces are expanded.
            index_sqlite_tmp_path: Accepted for code written for megatron-energon.
            **options: Arguments of :func:`~loader.compat.webdataset_factory.prepare_dataset`.

        Returns:
            Names of all parts of samples.

        Raises:
            ConfigError: Shards are missing, or the split is invalid.
            FormatError: Shards are damaged.
            StorageError: A folder is missing or cannot be written.
        """
        prepare_dataset(parent_path, paths, **options)
        return set(folder_at(parent_path).index.part_names)

    @classmethod
    def add_media_metadata(
        cls,
        parent_path: str | os.PathLike[str],
        *,
        media_filter: MediaFilter,
        progress_fn: ProgressFunction | None = None,
        workers: int = 32,
        index_sqlite_tmp_path: str | Path | None = None,  # noqa: ARG003 - files are never written in place
    ) -> int:
        """Collect the media metadata of a prepared dataset.

        Args:
            parent_path: Folder of the dataset.
            media_filter: Parts to collect metadata of.
            progress_fn: Progress display: receives an iterator and its length, and returns an iterator.
            workers: Maximum number of reading processes.
            index_sqlite_tmp_path: Accepted for code written for megatron-energon.

        Returns:
            Number of parts with metadata.

        Raises:
            StorageError: The folder is missing, not prepared, or cannot be written.
        """
        shards = list(folder_at(parent_path).shard_counts)
        report = prepare_dataset(
            parent_path, shards, media_filter=media_filter, progress_fn=progress_fn, workers=workers
        )
        return report.media.entries if report.media else 0


T_co = TypeVar("T_co", covariant=True)


class BaseWebdatasetFactory(BaseCoreDatasetFactory[T_co], DescribedDataset[T_co], WebdatasetPreparator):
    """A dataset of shards, whose parts stay bytes.

    Args:
        path: The dataset's folder.
        split_part: Part of the split; by default ``"train"`` or ``"val"``.
        split_config: Name of the split file in ``.nv-meta``.
        sample_type: Class of the samples; by default the class's ``__sample_type__``.
        field_map: Part, or value in a part, of each field: ``{"image": "jpg", "caption": "json[caption]"}``.
        sample_loader: Function from a dict of the parts to a dict of the fields; or ``"file.py:function"``, in
            ``.nv-meta``.
        part_filter: Names of the needed parts, or a function that returns True for these; or ``"file.py:function"``.
        subflavors: Labels of all samples.
        decoder: Decoder of the parts; None leaves them bytes.
        trust_code: Allow the dataset to run its code and to load pickles.
        filter_name: Name of the filter that selects samples; None keeps all.
        meta_folder: Folder to use instead of ``.nv-meta``.
        **options: Arguments of :class:`BaseCoreDatasetFactory`.

    Raises:
        ConfigError: A number is out of range.

    >>> photos = BaseWebdatasetFactory("photos", sample_type=CrudeSample, training=False, split_part="train")
    >>> [sample["txt"] for sample in get_loader(photos.build())]
    [b'a cat', b'a dog', b'two cats', b'a bird']
    """

    dataset_config: str | None = None
    """Name of the dataset file that chose this class; None for the default one."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        split_part: str | None = None,
        split_config: str | None = None,
        sample_type: type[T_co] | None = None,
        field_map: Mapping[str, str] | None = None,
        sample_loader: str | Callable[..., Any] | None = None,
        part_filter: str | Sequence[str] | Callable[[str], Any] | None = None,
        subflavors: Mapping[str, Any] | None = None,
        decoder: AnyDecoder | OfTheRun | None = None,
        trust_code: bool = False,
        filter_name: str | None = None,
        meta_folder: str | os.PathLike[str] | None = None,
        **options: Unpack[PassKeywords],
    ) -> None:
        BaseCoreDatasetFactory.__init__(self, **options)
        DescribedDataset.__init__(
            self,
            path,
            sample_type=sample_type,
            field_map=field_map,
            sample_loader=sample_loader,
            part_filter=part_filter,
            subflavors=subflavors,
            decoder=decoder,
            trust_code=trust_code,
        )
        self.paths = [self.path]
        self.split_part = split_part or ("train" if self.training else "val")
        self.split_config = split_config or SPLIT_YAML
        self.filter_name = filter_name
        meta = DatasetRef.at(str(self.path), meta_folder).find_meta()
        if meta.origin != "data":
            self.set_meta_folder(meta.path)

    @cached_property
    def source(self) -> DatasetSource:
        """The source that the stages read."""
        request = LoadRequest(
            ref=self._dataset_ref,
            split_part=self.split_part,
            filter=self.filter_name,
            subset=tuple(self.subset),
        )
        return DatasetSource(request=request, decoder=self._decoder, described=self)

    @property
    def _dataset_ref(self) -> DatasetRef:
        ref = DatasetRef(str(self.path), self.split_config, self.dataset_config, trust_code=self.trust_code)
        return ref if self._nv_meta is None else ref.moved(ref.path, str(self._nv_meta))

    @property
    def shards(self) -> list[ShardInfo]:
        """Shards of the split part, without excluded and empty ones."""
        return self._meta().shards

    @property
    def split_part_files(self) -> list[str]:
        """Names of the shards of the split part, without excluded ones."""
        return self._meta().split_part_files

    @property
    def sample_excludes(self) -> set[str]:
        """Samples that the split excludes, as ``shard/key``."""
        return self._meta().sample_excludes

    def _meta(self) -> WebdatasetMeta:
        return WebdatasetMeta.of(self._dataset_ref, split_part=self.split_part)

    def as_file_store(self) -> FileStore[bytes]:
        """Return the store of the dataset's parts, by name, as bytes.

        Raises:
            StorageError: The folder is missing or not prepared.
        """
        return DatasetFileStore.of(self._dataset_ref)


class DefaultGenericWebdatasetFactory(BaseWebdatasetFactory[T_co]):
    """A dataset of shards, whose samples are built by a field map, or by a function of the parts' bytes.

    >>> texts = DefaultGenericWebdatasetFactory("photos", sample_type=TextSample, field_map={"text": "txt"})
    >>> next(iter(get_loader(texts.build()))).text in (b"a cat", b"a dog", b"two cats", b"a bird")
    True
    """


class DefaultDecoderWebdatasetFactory(DefaultGenericWebdatasetFactory[T_co]):
    """A dataset of shards, whose parts are decoded; derive your own dataset classes from it.

    >>> from loader import TextSample
    >>> class Poems(DefaultDecoderWebdatasetFactory[TextSample]):
    ...     __sample_type__ = TextSample
    ...
    ...     def __init__(self, path, **kwargs):
    ...         super().__init__(path, field_map={"text": "txt"}, **kwargs)

    Args:
        path: The dataset's folder.
        decoder: Decoder of the parts; by default, the decoder of the run's task encoder. None leaves them bytes.
        **kwargs: Arguments of :class:`BaseWebdatasetFactory`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        decoder: AnyDecoder | OfTheRun | None = OfTheRun.DECODER,
        **kwargs: Any,
    ) -> None:
        super().__init__(path, decoder=decoder, **kwargs)


class StandardWebdatasetFactory(DefaultDecoderWebdatasetFactory[T_co]):
    """A dataset of shards with samples of a given type.

    Args:
        path: The dataset's folder.
        sample_type: Class of the samples.
        **kwargs: Arguments of :class:`BaseWebdatasetFactory`.

    >>> fields = {"image": "jpg", "caption": "txt"}
    >>> photos = StandardWebdatasetFactory("photos", sample_type=CaptioningSample, field_map=fields)
    >>> len(photos)
    4
    """

    def __init__(self, path: str | os.PathLike[str], *, sample_type: type[T_co], **kwargs: Any) -> None:
        super().__init__(path, sample_type=sample_type, **kwargs)


@dataclass(slots=True, kw_only=True)
class ShardInfo:
    """A shard of a dataset.

    Attributes:
        name: Path below the dataset's folder.
        path: Path of the file.
        count: Number of its samples.
    """

    name: str
    path: EPath
    count: int


@dataclass(kw_only=True)
class WebdatasetMeta:
    """The shards of one part of a dataset's split.

    Attributes:
        sample_excludes: Samples that the split excludes, as ``shard/key``.
        shards: Shards of the part, without excluded ones.
        split_part_files: Names of the part's shards.
        info_shard_files: Names of all shards of the dataset.
    """

    sample_excludes: set[str]
    shards: list[ShardInfo]
    split_part_files: list[str]
    info_shard_files: list[str]

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str],
        *,
        split_part: str,
        split_config: str | None = None,
        meta_folder: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Read the shards of a part.

        Args:
            path: Folder of a prepared dataset.
            split_part: Name of the part.
            split_config: Name of the split file in ``.nv-meta``.
            meta_folder: Folder to use instead of ``.nv-meta``.

        Raises:
            StorageError: The folder is missing or not prepared.
            ConfigError: The split file is invalid or missing, or has no such part.
            EmptyDatasetError: No shard of the part has samples.
        """
        ref = DatasetRef.at(str(EPath(path)), meta_folder, split_config=split_config)
        return cls.of(ref, split_part=split_part)

    @classmethod
    def of(cls, ref: DatasetRef, *, split_part: str) -> Self:
        """Read the shards of a part, as :meth:`from_config` does."""
        # The part must be in the split file.
        folder = folder_at(ref)
        split = folder.documents.split
        if split is None or split_part not in split.split_parts:
            parts = list(split.split_parts) if split else []
            raise ConfigError(
                f"there is no split part {split_part!r}{did_you_mean(split_part, parts)}; found {parts}",
                file=folder.storage.path(FOLDER),
            )
        # Keep its shards that have samples.
        excluded = split.excluded_shards()
        names = [name for name in split.split_parts[split_part] if name not in excluded]
        shards = [
            ShardInfo(name=name, path=EPath(ref.path) / name, count=count)
            for name in names
            if name in folder.shard_counts and (count := len(split.samples_of(split_part, folder.shard_counts[name])))
        ]
        if not shards:
            raise EmptyDatasetError(
                f"no shard of the split part {split_part!r} has samples", file=folder.storage.path(FOLDER)
            )
        samples = {f"{shard}/{key}" for shard, keys in split.excluded_samples().items() for key in keys}
        return cls(
            sample_excludes=samples,
            shards=shards,
            split_part_files=names,
            info_shard_files=list(folder.shard_counts),
        )


ProgressFunction = Callable[[Iterator[Any], int], Iterable[Any]]
"""Wraps an iterator of ``total`` steps to show progress: ``lambda steps, total: tqdm(steps, total=total)``."""


def prepare_dataset(
    parent_path: str | os.PathLike[str],
    paths: Sequence[str | os.PathLike[str]] | None = None,
    *,
    split_parts_ratio: Sequence[tuple[str, float]] | None = None,
    split_parts_patterns: Sequence[tuple[str, str]] | None = None,
    split_config: str = SPLIT_YAML,
    shuffle_seed: int | None = 42,
    progress_fn: ProgressFunction | None = None,
    progress: bool = False,
    workers: int = 32,
    tar_index_only: bool = False,
    media_filter: MediaFilter | None = None,
    fix_duplicates: bool = False,
    meta_folder: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
) -> PrepareReport:
    """Index and split shards as ``energon prepare`` does, but write no ``dataset.yaml``.

    Args:
        parent_path: Folder or URL of the dataset.
        paths: The shards, relative to the folder; braces are expanded. Other shards of the folder are excluded. All
            shards by default.
        split_parts_ratio: Parts of the split, and their shares.
        split_parts_patterns: Parts of the split, and patterns of their shards. By default the split is kept.
        split_config: Name of the split file.
        shuffle_seed: Seed to shuffle the shards with before they are split by a ratio; None does not shuffle.
        progress_fn: Progress display, one step for each shard.
        progress: Draw a progress bar on standard error, unless ``progress_fn`` is given.
        workers: Maximum number of scanning processes.
        tar_index_only: Write no split.
        media_filter: Parts to collect media metadata of.
        fix_duplicates: Rename keys that occur in several shards, in copies of these shards.
        meta_folder: Folder to use instead of ``.nv-meta``, for folders that cannot be written. Nothing is written next
            to the shards then, so it conflicts with ``media_filter`` and ``fix_duplicates``.
        storage_options: Endpoint, region and limits of an object store.
        executor: Scans the shards instead of processes of this machine, in tasks of up to 64 shards: a
            ``ProcessPoolExecutor``, ``client.get_executor()`` of a Dask cluster, and so on. It is not shut down.

    Raises:
        ConfigError: Shards are missing, or the split is invalid.
        FormatError: Shards are damaged.
        StorageError: A folder is missing or cannot be written.
        WorkerError: A scanning process or a task was killed.
    """
    # Find the shards of the folder, and those that the caller lists.
    use_storage_options(parent_path, storage_options)
    ref = DatasetRef(os.fspath(parent_path), meta_folder=None if meta_folder is None else os.fspath(meta_folder))
    storage = ref.storage()
    present = [shard.name for shard in find_shards(storage).shards]
    wanted = frozenset(present) if paths is None else _wanted(storage, paths, present)
    # A split file of another name is planned here, since a prepare writes only the usual one.
    split = None if tar_index_only else _split_request(split_parts_ratio, split_parts_patterns, shuffle_seed)
    files = {}
    if split is not None and split_config != SPLIT_YAML:
        text = plan_split(storage, split, [name for name in present if name in wanted]).text
        files, split = {split_config: text or ""}, None
    # Prepare the listed shards, and advance the caller's display.
    excluded = [re.escape(name) for name in present if name not in wanted]
    plan = PreparePlan.of(
        ref,
        workers=max(1, min(workers, os.cpu_count() or 1, len(wanted))),
        exclude=f"^(?:{'|'.join(excluded)})$" if excluded else None,
        split=split,
        files=files,
        media=media_filter,
        fix_duplicates=fix_duplicates,
    )
    if progress and progress_fn is None:
        progress_fn = progress_bar
    steps = iter(() if progress_fn is None else progress_fn(iter(range(len(wanted))), len(wanted)))
    taken = 0

    def advance(now: PrepareProgress) -> None:
        nonlocal taken
        while now.phase == "scan" and taken < now.shards_done:
            next(steps, None)
            taken += 1

    report = run_prepare(plan, on_progress=advance, engine=Engine(executor=executor) if executor else None)
    deque(steps, maxlen=0)  # the display ends with its last step
    return report


def _split_request(
    ratio: Sequence[tuple[str, float]] | None, patterns: Sequence[tuple[str, str]] | None, shuffle_seed: int | None
) -> SplitRequest | None:
    if ratio is not None and patterns is not None:
        raise ConfigError("expected split_parts_ratio or split_parts_patterns, found both", hint="pass one of them")
    if ratio is not None:
        return SplitRequest(ratio=dict(ratio), shuffle_seed=shuffle_seed)
    return None if patterns is None else SplitRequest(patterns=tuple(patterns))


def _wanted(storage: Storage, paths: Sequence[str | os.PathLike[str]], present: Sequence[str]) -> frozenset[str]:
    root = storage.path("")
    wanted: dict[str, None] = {}
    for path in paths:
        text = os.fspath(path)
        for name in [text] if text in present else expand_pattern(text):
            wanted[os.path.relpath(os.path.join(root, name), root)] = None
    faults = [
        Fault(place=name, message=f"there is no such shard{did_you_mean(name, present)}")
        for name in wanted
        if name not in present
    ]
    if faults or not wanted:
        raise ConfigError("" if faults else "expected the paths of shards, found none", file=root, faults=faults)
    return frozenset(wanted)
