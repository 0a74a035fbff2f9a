"""``open_dataset``: a dataset as an object for programs and notebooks."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
from ..dataset.kind import kind_at
from ..dataset.query import SampleQuery, find_samples, samples_of_keys, unknown_key_error
from ..dataset.query.samples import nearest_key
from ..dataset.records import as_bytes
from ..dataset.unprepared.tar_index import index_tars
from ..engine.workers import usable_cores
from ..errors import ConfigError, SampleError, SkipSample, StorageError
from ..format.data_kind import is_tar_file
from ..format.dataset_ref import DOCUMENT_CHOICES, DatasetRef
from ..format.documents.messages import nearest_hint
from ..format.documents.providers import ALL_PARTS, KeyFormat, LoadRequest, checked_key_format
from ..format.nv_meta import TEMPORARY_INDEX
from ..inspect.stats import compute_values
from ..metadataset.plans.plan_leaves import plan_splits
from ..pipeline.reading.dataset_source import DatasetSource
from ..pipeline.reading.samples import excluded_positions
from ..pipeline.reading.source import Source
from ..samples.decoding.decoder import SampleDecoder
from ..storage.remote import use_storage_options
from ..stores.file_store import MissingFileError
from ..training.datasets.numbered_samples import NumberedSamples
from ..training.datasets.open_sources import open_sources
from .locations import SampleLocation, location_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pyarrow as pa

    from ..engine import Engine
    from ..mapping import MapProgress, MapReport
    from .columns import Columns
    from .shown import BrowseFrame

_DECODER = SampleDecoder()
_SHOWN = 8  # samples of a page


def open_dataset(
    path: str | os.PathLike[str],
    *,
    split_config: str | None = None,
    dataset_config: str | None = None,
    meta_folder: str | os.PathLike[str] | None = None,
    decoder: SampleDecoder | None = _DECODER,
    trust_code: bool = False,
    key_format: KeyFormat | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> OpenedDataset:
    """Open a dataset, to look at it and to read samples by number and key.

    No sample is read, and opening takes milliseconds whatever the size. Only data that are not prepared are read first:
    the headers of tar files, indexed in a temporary folder, and the lines of a JSONL file; the index of a large one is
    kept in the user's folder of indexes. Nothing is written next to them.

    Args:
        path: Path or URL of a prepared folder, of a ``.jsonl``, ``.bin`` or ``.parquet`` file, of a folder of tar
            files or one tar file that are not prepared, or of a metadataset (``.yaml``).
        split_config: Name of the split file in ``.nv-meta``.
        dataset_config: Name of the dataset file in ``.nv-meta``.
        meta_folder: Folder to use instead of ``.nv-meta``.
        decoder: Decodes the parts of samples, as in training; None leaves them bytes.
        trust_code: Allow the dataset to run its code and to load pickles.
        key_format: Form of ``__key__``: ``"shard/key"`` or ``"key"``.
        storage_options: Endpoints, regions and limits of object stores.

    Raises:
        StorageError: The path is missing, or holds no samples.
        ConfigError: A file of the dataset or metadataset is invalid.
        FormatError: An index is damaged, or a tar file that is not prepared is.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"expected a path for open_dataset(), found {path!r}")
    use_storage_options(path, storage_options)
    ref = DatasetRef.at(
        path, meta_folder, split_config=split_config, dataset_config=dataset_config, trust_code=trust_code
    )
    form = None if key_format is None else checked_key_format(key_format, source="key_format")
    return OpenedDataset(LoadRequest(ref=ref, split_part=ALL_PARTS, key_format=form), decoder)


def _open(request: LoadRequest, decoder: SampleDecoder | None) -> tuple[list[Source], str | None]:
    """Return the datasets, and the folder of the index of tar files that are not prepared."""
    source = DatasetSource(request=request, decoder=decoder)
    if request.ref.kind.is_file:
        _check_no_documents(request.ref)
        _ = source.samples
        return [source], None
    # A prepared folder: its kind is not looked for, which would take longer than to open it.
    if not is_tar_file(request.ref.path):
        try:
            # Raise errors of the index, and of documents that the caller names, here.
            _ = source.folder.index
            _ = request.ref.dataset_config and source.folder.documents.config
            _ = request.ref.split_config and source.folder.documents.split
            return [source], None
        except StorageError:
            if kind_at(request.ref) != "unprepared tar files":
                raise
    # Tar files that are not prepared are indexed in a temporary folder.
    _check_no_documents(request.ref)
    folder = tempfile.mkdtemp(prefix=TEMPORARY_INDEX)
    try:
        shards = index_tars(request.ref.path, folder)
    except BaseException:
        shutil.rmtree(folder)
        raise
    ref = request.ref.moved(shards, folder, is_temporary=True)
    source = DatasetSource(request=replace(request, ref=ref), decoder=decoder)
    _ = source.folder.index
    return [source], folder


def _check_no_documents(ref: DatasetRef) -> None:
    # Ignoring a document that the caller names would open other samples than expected.
    given = [name for name in DOCUMENT_CHOICES if getattr(ref, name, None)]
    if given:
        raise ConfigError(
            f"expected no {' and no '.join(given)}: these data have no .nv-meta",
            at=ref.path,
            hint="run energon prepare, and open the folder",
        )


def _open_splits(request: LoadRequest, decoder: SampleDecoder | None) -> Iterator[tuple[str, Source]]:
    """Yield the datasets of all splits of a metadataset with the split, in the order of the file."""
    for name in plan_splits(request.ref).checked().names:
        loaded = open_sources(replace(request, split_part=name), decoder=decoder, training=False)
        yield from ((name, each.source) for each in loaded)


class _IndexFolder:
    """The temporary folder of an index, which is removed with the last dataset of this process that reads it."""

    living: ClassVar[weakref.WeakValueDictionary[str, _IndexFolder]] = weakref.WeakValueDictionary()
    """Those of this process by path, for copies by pickle."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.living[path] = self
        weakref.finalize(self, _remove, path, os.getpid())


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:  # forked workers read the folder of this process
        shutil.rmtree(path, ignore_errors=True)


class OpenedDataset(NumberedSamples[Any]):
    """Samples by number and key, as :func:`open_dataset` returns them.

    ``dataset[5]`` is a sample as its ``dataset.yaml`` makes it, ``dataset[-1]`` the last one, ``dataset[2:5]`` a list
    of three, ``dataset["shard_0.tar/0001"]`` the sample of a key, and ``for sample in dataset`` yields the samples in
    order, without excluded ones. Samples have the numbers of the index, over all split parts, so that excluded samples
    have numbers, too. :meth:`select` returns the samples of a split part, a condition or a filter, numbered from 0.

    The datasets of a metadataset follow one another in the order of its file, with their subsets, filters and joins;
    weights are ignored.

    Threads may read at the same time. Pickles hold no open files; other processes open them again.
    ``torch.utils.data.DataLoader`` takes it as a map-style dataset, and locates the samples of a batch together.

    Args:
        request: What to open.
        decoder: Decodes the parts; None leaves them bytes.

    >>> photos = open_dataset("photos")
    >>> photos[1].caption, [sample.caption for sample in photos[2:]]
    ('a dog', ['two cats', 'a bird'])
    """

    _chosen: IntArray | None = None
    """Positions of the chosen samples, ascending; None for all."""

    _criteria: tuple[str, ...] = ()
    """How they were chosen, for the text of the dataset."""

    def __init__(self, request: LoadRequest, decoder: SampleDecoder | None) -> None:
        self._request = request
        self._decoder = decoder
        self._open()

    def _open(self) -> None:
        # A metadataset has several datasets, each of one of its splits.
        self._splits: tuple[str, ...] = ()
        self._index_path: str | None = None
        if self._request.ref.kind.is_mix:
            named = [*_open_splits(self._request, self._decoder)]
            self._splits, sources = tuple(split for split, _ in named), [source for _, source in named]
        else:
            sources, self._index_path = _open(self._request, self._decoder)
        self._index_folder = self._index_path and _IndexFolder(self._index_path)
        super().__init__(sources)

    def __getstate__(self) -> dict[str, Any]:
        # Leave out the cached text, and the object that removes a temporary index: each process has its own.
        dropped = ("_info", "_excluded_positions", "_index_folder")
        return {name: value for name, value in super().__getstate__().items() if name not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        folder = state["_index_path"]
        self.__dict__.update(state, _index_folder=_IndexFolder.living.get(folder or ""))
        if folder is not None and not os.path.exists(folder):
            self._open()  # the process that scanned the tar files has ended

    # ---------------------------------------------------------------------------------------------------- numbers

    def __len__(self) -> int:
        """Return the number of samples, excluded ones included."""
        return super().__len__() if self._chosen is None else len(self._chosen)

    def _positions(self, numbers: IntArray) -> IntArray:
        return numbers if self._chosen is None else self._chosen[numbers]

    def _kept(self, positions: IntArray) -> IntArray:
        return positions if self._chosen is None else np.intersect1d(positions, self._chosen)

    def _numbers_of(self, positions: IntArray) -> IntArray:
        # Positions that were not chosen have no number.
        if self._chosen is None:
            return positions
        return np.flatnonzero(np.isin(self._chosen, positions, assume_unique=True))

    def __contains__(self, key: object) -> bool:
        """Return True if a sample has a key; values of samples are not compared."""
        return isinstance(key, str) and bool(self.find(key))

    def find(self, key: str) -> list[int]:
        """Return the numbers of all samples with a key, ascending; empty for an unknown key.

        Args:
            key: ``<shard>/<key>``, or the key alone.
        """
        numbers: list[int] = self._numbers_of(self._positions_of(key)).tolist()
        return numbers

    _key_hint = "keys are written as dataset.key(0) shows them: '<shard>/<key>', or the key alone"

    def _guess(self, key: str) -> str:
        near = nearest_key(self.sources[0].selection.first, key) if len(self.sources) == 1 else None
        return "" if near is None else f"; did you mean {near!r}?"

    def key(self, number: int) -> str:
        """Return the key of a sample, ``<shard>/<key>``, without reading it; of a row of a join, its first one's."""
        source, index = self._place(number)
        first = source.folder.members_of(index)[0]
        return first.dataset.index.full_key(first.number)

    def _place(self, sample: int) -> tuple[Source, int]:
        """Return the dataset of a sample, and its number in the index or join."""
        source_number, index = self.index_of(self._position(sample))
        return self.sources[source_number], index

    def _indexes(self) -> Iterator[tuple[Source, IntArray | None]]:
        """Yield each dataset with the numbers of its samples in the first dataset's index; None for all, in order."""
        for source, first, stop in zip(self.sources, self._starts, self._starts[1:], strict=False):
            if self._chosen is None and source.selection.is_whole:
                yield source, None
                continue
            positions = np.arange(first, stop)
            if self._chosen is not None:
                low, high = self._chosen.searchsorted((first, stop))
                positions = self._chosen[low:high]
            indexes = self.locate(positions)[1] if len(positions) else positions
            yield source, source.selection.first_numbers(indexes) if len(indexes) else indexes

    # ---------------------------------------------------------------------------------------------------- samples

    def __iter__(self) -> Iterator[Any]:
        return self.iterate()

    def iterate(self, *, include_excluded: bool = False) -> Iterator[Any]:
        """Yield the samples in the order of their numbers; later ones are read ahead.

        Samples that the dataset's code skips are omitted.

        Args:
            include_excluded: Yield excluded samples, too.

        Raises:
            Exception: As for a single sample.
        """
        excluded = np.empty(0, np.int64) if include_excluded else self._excluded_positions

        def kept(positions: IntArray) -> IntArray:
            rows = np.minimum(excluded.searchsorted(positions), len(excluded) - 1)  # np.isin would sort all of them
            others: IntArray = positions[excluded[rows] != positions]
            return others

        for raw, _ in self.stream(range(len(self)), kept if len(excluded) else None):
            try:
                yield self.sources[raw.source].recipe.build(raw, ())
            except SkipSample:
                continue

    @cached_property
    def _excluded_positions(self) -> IntArray:
        return excluded_positions(self.sources)

    @property
    def excluded(self) -> IntArray:
        """Numbers of the samples that the split files exclude, ascending."""
        return self._numbers_of(self._excluded_positions)

    def parts(self, number: int) -> dict[str, bytes]:
        """Return the bytes of all parts of a sample by name; in a join, after the name of the member and a slash.

        Tokens are the numbers as the file stores them. Values of Parquet files are text in UTF-8, or JSON.

        Raises:
            IndexError: There is no such number.
            FormatError: The shard has changed since it was indexed, or is damaged.
            StorageError: The shard is missing or cannot be read.
        """
        source, index = self._place(number)
        return {name: _stored_bytes(value) for name, value in source.folder.read_parts(index).items()}

    def read(self, number: int, part: str, start: int = 0, stop: int | None = None) -> bytes:
        """Read the bytes ``[start, stop)`` of a part of a sample; fewer at its end.

        Raises:
            ValueError: ``start`` or ``stop`` is negative.
            MissingFileError: The sample has no such part; it is a ``KeyError``.
            Exception: As for :meth:`parts`.
        """
        if start < 0 or (stop is not None and stop < 0):
            raise ValueError(f"expected offsets of at least 0, found {start} and {stop}")
        source, index = self._place(number)
        dataset = source.folder
        # Ask the dataset for the range, so that no more than it is read.
        try:
            if source.selection.first.format == "binidx":  # of which a dataset reads the text
                return _stored_bytes(dataset.read_parts(index)[part])[start:stop]
            return dataset.read(index, part, start, stop)
        except KeyError as error:
            if isinstance(error, SampleError):
                raise
        # The key was of no part: name the parts that there are.
        known = ", ".join(each.name for each in dataset.parts(index))
        raise MissingFileError(f"there is no part {part!r}; the sample has: {known}", at=dataset.place_of(index))

    def where_is(self, number: int) -> SampleLocation:
        """Return where the bytes of a sample lie: its shard, and the offsets and sizes of its parts."""
        source, index = self._place(number)
        return location_of(source.folder, index)

    # ------------------------------------------------------------------------------------------------- the dataset

    @property
    def path(self) -> str:
        """Path or URL of the dataset."""
        return self._request.ref.path

    @property
    def split_parts(self) -> list[str]:
        """Names of the split parts; of a metadataset, of its splits.

        Raises:
            ConfigError: The split file is invalid.
        """
        if self._request.ref.kind.is_mix:
            return list(dict.fromkeys(self._splits))
        split = self.sources[0].selection.first.documents.split
        return [] if split is None else list(split.split_parts)

    @property
    def part_names(self) -> list[str]:
        """Names of the parts that samples may have; in a join, after the name of the member and a slash."""
        return list(dict.fromkeys(name for source in self.sources for name in source.folder.part_names))

    @property
    def columns(self) -> Columns:
        """The columns by name: arrays with a value for each sample."""
        from .columns import Columns

        return Columns(lambda: list(self._indexes()))

    def select(
        self,
        *,
        split_part: str | None = None,
        where: str | None = None,
        filter: str | None = None,  # noqa: A002 - the name of the option of other calls
        keys: Iterable[str] | None = None,
    ) -> OpenedDataset:
        """Return the samples that all given criteria choose, as a dataset of its own; nothing is copied.

        Its samples keep their order and are numbered from 0; excluded ones are included. Of a join, the criteria apply
        to the samples of the first dataset.

        Args:
            split_part: A split part; of a metadataset, one of its splits.
            where: Condition on columns, ``bytes``, ``shard``, ``size("jpg")`` and ``has("jpg")``, and on values such as
                ``txt.chars``, for which all samples are read unless ``energon stats --write`` keeps them as a column.
            filter: Name of a filter.
            keys: Keys of samples, ``<shard>/<key>`` or bare, and names of shards; a text is one key.

        Raises:
            ConfigError: There is no such split part, value, filter or key, or the condition is invalid.
        """
        # Check the split part, which is a split of a metadataset, and the keys.
        query = SampleQuery(where=where, filter=filter)
        is_mix = self._request.ref.kind.is_mix
        if split_part is not None and is_mix and split_part not in self.split_parts:
            raise ConfigError(
                f"there is no split {split_part!r}; there are: {', '.join(self.split_parts)}"
                + nearest_hint(split_part, self.split_parts),
                at=self.path,
            )
        if split_part is not None and self._index_path is not None:
            message = f"these shards are not prepared, so they have no split part {split_part!r}"
            raise ConfigError(message, at=self.path, hint="run energon prepare, and open the folder")
        if split_part is not None and not is_mix:
            query = replace(query, split_parts=(split_part,))
        by_key = None if keys is None else self._of_keys([keys] if isinstance(keys, str) else list(keys))
        # Collect the positions of the samples of each dataset.
        pieces = [np.empty(0, np.int64)]
        for row, (source, first) in enumerate(zip(self.sources, self._starts, strict=False)):
            if split_part is not None and is_mix and self._splits[row] != split_part:
                continue
            indexes = _find(source, query) if query != SampleQuery() else None
            if by_key is not None:
                indexes = by_key[row] if indexes is None else np.intersect1d(indexes, by_key[row])
            some = source.selection
            pieces.append(first + (np.arange(len(some)) if indexes is None else some.positions(indexes)))
        # Keep those that this selection has, and name the criteria for the text of the dataset.
        chosen = np.concatenate(pieces)
        if self._chosen is not None:
            chosen = np.intersect1d(chosen, self._chosen, assume_unique=True)
        criteria = {"split_part": split_part, "where": where, "filter": filter}
        shown = [f"{name}={value!r}" for name, value in criteria.items() if value is not None]
        return self._with(chosen, [*shown, *(["keys"] if keys is not None else [])])

    def _of_keys(self, keys: Sequence[str]) -> list[IntArray]:
        """Return the samples of some keys in each dataset, ascending."""
        # A key may be in some of the datasets only.
        firsts = [source.selection.first for source in self.sources]
        matches = [
            {key: source.selection.with_first(np.array(some, np.int64)) for key, some in by_key.items()}
            for source, by_key in ((source, samples_of_keys(source.selection.first, keys)) for source in self.sources)
        ]
        unknown = [key for key in dict.fromkeys(keys) if not any(len(by_key[key]) for by_key in matches)]
        if unknown:
            raise unknown_key_error(firsts, unknown, at=self.path)
        return [np.unique(np.concatenate([np.empty(0, np.int64), *by_key.values()])) for by_key in matches]

    def _with(self, chosen: IntArray, criteria: Sequence[str]) -> OpenedDataset:
        # A selection shares the open datasets of this one.
        selected = object.__new__(OpenedDataset)
        selected.__dict__.update({name: value for name, value in self.__dict__.items() if name != "_info"})
        selected._chosen = chosen
        selected._criteria = (*self._criteria, *criteria)
        return selected

    def map(
        self,
        function: Callable[..., Any] | str,
        *,
        write: str | Sequence[str] = (),
        to_filter: str | None = None,
        to_parts: str | os.PathLike[str] | None = None,
        to_dataset: str | os.PathLike[str] | None = None,
        batch_size: int | None = None,
        raw: bool = False,
        include_excluded: bool = False,
        workers: int = 1,
        engine: Engine | Executor | None = None,
        max_failures: int = 0,
        retry_failed: bool = False,
        timeout_s: float | None = None,
        version: str = "",
        on_progress: Callable[[MapProgress], None] | None = None,
    ) -> MapReport:
        """Run a function over the samples, and keep what it returns, as ``energon map`` does.

        Finished tasks stay until all are done: after an interruption, the same call continues.

        Args:
            function: Called with a sample, or with a list of samples. Of a class, each worker makes an instance and
                calls it. A text such as ``"quality:score"`` names a function of a module.
            write: Columns for the results: numbers, texts or vectors; several names if it returns dictionaries.
            to_filter: Name of a filter, which keeps the samples for which it returns True.
            to_parts: Folder of a new dataset with the parts that it returns, which is joined with this one.
            to_dataset: Folder of a new dataset with the samples that it returns, none, one or a list for each.
            batch_size: Samples of a call; None calls it with one sample.
            raw: Call it with the bytes of parts, and decode nothing.
            include_excluded: Also call it with excluded samples.
            workers: Number of processes; with one, it runs in this process. Functions of a notebook are inherited by
                forked processes, as lambdas are.
            engine: Runs the tasks instead: an engine, or an executor such as one of Dask or Ray.
            max_failures: With more failed samples, nothing is written.
            retry_failed: Run tasks again that an earlier call has left with failed samples.
            timeout_s: A call that takes longer is a failure of its samples.
            version: Text that distinguishes results of the same code, for example with other weights.
            on_progress: Called after each task.

        Raises:
            ConfigError: The target cannot be written, or an unfinished call had another function.
            SampleError: More samples failed than allowed, or their values cannot be in one column.
            WorkerError: The processes of one task were killed three times.
        """
        from ..engine import Engine
        from ..mapping import MapRequest, given_function, named_function, output_of, run_map

        # Only a prepared dataset has columns, and tasks that follow from its index.
        source = self.sources[0]
        if len(self.sources) != 1 or self._index_path is not None:
            raise ConfigError(
                "expected a prepared dataset", at=self.path, hint="prepare the shards; open each dataset of a mix"
            )
        if not isinstance(source, DatasetSource) or not source.selection.is_whole or source.folder.is_file:
            raise ConfigError(
                "expected the folder of a prepared dataset",
                at=source.selection.first.path,
                hint="open each dataset of a mix",
            )
        # Leave excluded samples out.
        folder, samples, excluded = source.folder, self._chosen, source.turns.excluded
        if not include_excluded and len(excluded):
            every = np.arange(len(folder.index)) if samples is None else samples
            samples = np.setdiff1d(every, excluded, assume_unique=True)
        # Run the function.
        output, target = output_of(
            folder.ref,
            write=(write,) if isinstance(write, str) and write else tuple(write),
            to_filter=to_filter,
            to_parts=None if to_parts is None else os.fspath(to_parts),
            to_dataset=None if to_dataset is None else os.fspath(to_dataset),
        )
        request = MapRequest(
            source=source,
            function=(
                named_function(function, folder=os.getcwd(), version=version)
                if isinstance(function, str)
                else given_function(function, version=version)
            ),
            output=output,
            target=target,
            samples=None if samples is None or len(samples) == len(folder.index) else samples,
            batch_size=batch_size,
            raw=raw,
            max_failures=max_failures,
            timeout_s=timeout_s,
            retry_failed=retry_failed,
            engine=engine if isinstance(engine, Engine) else Engine(workers=workers, executor=engine),
        )
        return run_map(request, on_progress=on_progress)

    def to_arrow(
        self, columns: Sequence[str] | None = None, *, parts: Sequence[str] = (), keys: bool = False
    ) -> pa.Table:
        """Return columns, and parts that are short texts, as an Arrow table, which pandas and polars take.

        Args:
            columns: Names of columns; None for all.
            parts: Names of parts to add as text; they are read from every sample.
            keys: Add the column ``key`` with ``<shard>/<key>``.

        Raises:
            ImportError: pyarrow is not installed.
            ConfigError: There is no such column.
            SampleError: A part is not text, or larger than 1 MiB.
        """
        from .columns import arrow_table

        samples = (self._place(sample) for sample in range(len(self)))
        return arrow_table(self.columns, columns, parts=parts, keys=keys, samples=samples)

    def browse(self, *, height: int = 640) -> BrowseFrame:
        """Start ``energon browse`` at a free port of this machine, and return the frame that shows it in a notebook.

        Args:
            height: Pixels of the frame.

        Raises:
            ConfigError: The server cannot start: the extra ``browse`` is not installed, or the dataset is damaged.
        """
        from .shown import BrowseFrame

        return BrowseFrame.start(self._request.ref, height=height)

    # ------------------------------------------------------------------------------------------------------- shown

    @cached_property
    def _info(self) -> str:
        from .shown import info_text

        return info_text(self._request, len(self), self._criteria)

    def __repr__(self) -> str:
        return self._info

    def _repr_html_(self) -> str:
        from .shown import dataset_html

        excluded, samples = {*self.excluded[:_SHOWN].tolist()}, []
        for sample in range(min(_SHOWN, len(self))):
            title = f"{sample}   {self.key(sample)}{', excluded' if sample in excluded else ''}"
            samples.append((title, partial(self._shown, self._position(sample)), partial(self.parts, sample)))
        return dataset_html(self._info, samples)

    def _shown(self, position: int) -> Any:
        from .shown import check_shown

        raw = self.read_one(position)
        check_shown(raw)
        return self._build(raw, position)


def _find(source: Source, query: SampleQuery) -> IntArray:
    """Return the samples, or rows, whose sample in the first dataset a query chooses; ascending."""
    compute = partial(compute_values, workers=usable_cores())
    return source.selection.with_first(find_samples(source.selection.first, replace(query, compute=compute)))


def _stored_bytes(value: Any) -> bytes:
    """Return the bytes of a part: of tokens as they are stored, of a text in UTF-8, of other values as JSON."""
    return value.tobytes() if isinstance(value, np.ndarray) else as_bytes(value)
