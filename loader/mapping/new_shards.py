"""Samples and parts that a map returns, written by its workers to the shards of a new dataset."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import msgspec
import numpy as np

from ..cached_property import cached_property
from ..convert.added_parts import ALL_PART, check_fields, check_join, write_join
from ..convert.resharding import carried_documents
from ..convert.writing.encoded_parts import encode_part
from ..convert.writing.new_folder import check_new_folder, check_not_written
from ..convert.writing.new_output import check_outside, keep_shards
from ..convert.writing.sample_parts import SampleParts, checked_key, description, type_of_sample
from ..convert.writing.written_shards import OpenShard, repeated_keys, shard_entries
from ..dataset.dataset import Dataset
from ..dataset.job_journal import request_of_metadata
from ..dataset.opening import folder_at
from ..dataset.selection import Selection
from ..engine.journal import Job
from ..errors import ConfigError, SampleError
from ..format.carry import Carried, NewOrder, OldDataset
from ..format.dataset_ref import DatasetRef
from ..format.documents.sample_types import CRUDE
from ..format.nv_meta import DATASET_YAML, FOLDER, JOBS_FOLDER, REQUEST_JSON
from ..format.unfinished import remove_left_files
from ..prepare.plan import PreparePlan, SplitRequest
from ..prepare.run import open_prepare
from ..storage import Storage, open_storage, read_document, resolve_path
from .outputs import ToColumns, ToFilter
from .tasks import MapOutput, MapResults, MapTask, Outcome, TaskFailures, TaskResult, Values, WrittenShard

_SHARD_BYTES = 1 << 30  # a task of large results has several shards
_OWN_SHARD = re.compile(r"shard_\d{9,}(_.+)?_\d{2,}\.tar")


@dataclass(frozen=True, kw_only=True)
class ToDataset(MapOutput):
    """Write the samples that the function returns, none, one or several for each, to a new dataset.

    Attributes:
        ref: The dataset of the samples, whose split, columns and filters the new one takes over.
        output: Path or URL of a new or empty folder.
    """

    ref: DatasetRef
    output: str

    target: ClassVar[str] = "dataset"

    def storage(self, folder: Dataset | None = None) -> Storage:  # noqa: ARG002 - as of other outputs
        """Open the new folder, which has the journal, too."""
        return open_storage(self.output)

    def check(self, folder: Dataset) -> None:  # noqa: ARG002 - as of other outputs
        """Raise an error if the folder has other files, or is in the dataset."""
        check_outside(self.output, [self.ref.path])
        storage = self.storage()
        if not storage.exists(f"{JOBS_FOLDER}/map-{self.target}"):
            check_new_folder(storage, f"{JOBS_FOLDER}/map-{self.target}", hint="name a new folder", command="map")

    def check_not_written(self, folder: Dataset, job: Job) -> None:
        """Raise an error if a map has written the output; complete it first if it was the same one.

        Raises:
            AlreadyDoneError: It was the same one.
            ConfigError: The map had another request.
        """
        check_not_written(self.storage(), JOBS_FOLDER, self._done(folder, job), lambda: self._complete(folder))

    def _done(self, folder: Dataset, job: Job) -> Job:
        """Return the record of a finished job in its output."""
        request = {**job.request, **request_of_metadata(folder)}
        return msgspec.structs.replace(job, request=request, tasks=0, starts=(), results="")

    def _complete(self, folder: Dataset) -> tuple[str, ...]:  # noqa: ARG002 - as of parts
        """Write what belongs to the new dataset, and return the paths of all."""
        return (self.output,)

    def request(self, folder: Dataset) -> dict[str, str]:
        """Return the digest of the split file, which names the split part of each new shard."""
        file = f"{FOLDER}/{folder.ref.split_file}"
        text = read_document(folder.storage, file) if folder.storage.exists(file) else b""
        return {"split file": hashlib.sha256(text).hexdigest()[:16]}

    # ------------------------------------------------------------------------------------------------ in workers

    def collect(self, task: MapTask, values: Values, failures: TaskFailures) -> TaskResult:
        part_names: set[str] = set()
        kinds: set[str] = set()
        keys: set[str] = set()
        storage, index = self.storage(), failures.folder.index
        # Samples of one split part are in shards of their own.
        writers: dict[str, _TaskShards] = {}
        with ExitStack() as stack:
            for sample_index, value in values:
                if value is None:
                    continue
                # A sample is written with all that the function returned, or fails.
                try:
                    outputs = [*self._outputs(value, index.key(sample_index))]
                    _add_keys(keys, [key for key, _, _ in outputs])
                except Exception as error:  # noqa: BLE001 - of a generator or an encoder, too
                    failures.add(sample_index, error)
                    continue
                split = self._split_of(sample_index)
                if split not in writers:
                    writer = _TaskShards(storage, f"shard_{task.start:09d}", split)
                    writers[split] = stack.enter_context(writer)
                for key, parts, kind in outputs:
                    writers[split].write(key, parts, sample_index)
                    part_names.update(parts)
                    kinds.add(kind)
        shards = tuple(shard for writer in writers.values() for shard in writer.shards)
        return TaskResult(
            shards=shards,
            written=sum(shard.samples for shard in shards),
            part_names=tuple(sorted(part_names)),
            kinds=tuple(sorted(kinds)),
        )

    @cached_property
    def _splits(self) -> tuple[list[int], list[tuple[int, str]]]:
        """The first samples of runs of a split part, ascending; the end and the split part of each."""
        folder = folder_at(self.ref)
        split = folder.documents.split
        names = split.split_parts if split else ()
        runs = sorted((run.start, run.stop, name) for name in names for run in Selection(folder, name).runs())
        return [start for start, _, _ in runs], [(stop, name) for _, stop, name in runs]

    def _split_of(self, sample_index: int) -> str:
        """Return the split part of a sample; an empty text if it is in none."""
        starts, runs = self._splits
        run = bisect_right(starts, sample_index) - 1
        return runs[run][1] if run >= 0 and sample_index < runs[run][0] else ""

    def _outputs(self, value: Any, key: str) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Yield the key, the encoded parts and the type of each sample that the function returned for a sample."""
        several = isinstance(value, list | tuple | Iterator)
        for position, sample in enumerate(value if several else [value]):
            kind = "" if isinstance(sample, Mapping) else type_of_sample(sample)
            if kind is None:
                raise SampleError(
                    f"expected a sample or a dictionary of parts, found {type(sample).__name__}: return"
                    ' {"jpg": picture, "txt": text}, a typed sample, or a list of these'
                )
            # A key that the function has set counts; another one is numbered if there are several samples.
            given = sample.get("__key__") if isinstance(sample, Mapping) else getattr(sample, "__key__", None)
            bare = key if given is None else str(given).rpartition(".tar/")[2]
            written = f"{key}_{position}" if several and bare == key else bare
            if isinstance(sample, Mapping):
                parts = {name: part for name, part in sample.items() if not name.startswith("__")}
            else:
                parts = SampleParts(kind).parts(sample, key=written)
            checked_key(written, parts)
            yield written, {name: encode_part(name, part, key=written) for name, part in parts.items()}, kind

    # ---------------------------------------------------------------------------------------- the end of the job

    def commit(self, results: MapResults, joined: None) -> Outcome:  # noqa: ARG002 - as of other outputs
        """Prepare the shards of all tasks as a dataset, with the columns and filters of the old one."""
        storage, folder = self.storage(), results.folder
        # Keep the shards of the results alone: a killed run, maybe with other options, may have left others.
        shards: list[WrittenShard] = []
        part_names: set[str] = set()
        kinds: set[str] = set()
        for _, result in results:
            shards += result.shards
            part_names.update(result.part_names)
            kinds.update(result.kinds)
        if not shards:
            raise ConfigError("no sample was written", at=self.output, hint="return a sample for some of them")
        shards.sort(key=lambda shard: shard.name)  # as in the index: a task has a shard for each split part
        names = [shard.name for shard in shards]
        remove_left_files(storage, of_running=True)
        keep_shards(
            storage,
            names,
            _OWN_SHARD,
            fault="is not of this map",
            hint="move it away, and run the same command again",
        )
        warnings = self._carry(folder, storage, shards)
        # Prepare them, by the indexes that the workers have stored.
        split: dict[str, tuple[str, ...]] = {}
        has_split = folder.documents.split is not None
        for shard in shards:
            part = shard.split or ("" if has_split else "train")
            if part:
                split[part] = (*split.get(part, ()), shard.name)
        job = results.journal.job()
        record = {} if job is None else {REQUEST_JSON: msgspec.json.encode(self._done(folder, job)).decode()}
        plan = PreparePlan(
            path=self.output,
            split=SplitRequest(parts=split),
            files={**self._documents(folder, part_names, kinds), **record},
        )
        with open_prepare(plan) as prepare:
            prepare.scan()
            if prepare.index.layout.duplicate_keys and not folder.index.layout.duplicate_keys:
                repeated = repeated_keys(prepare.index)
                raise ConfigError(
                    f"the function returned keys twice ({len(repeated):,}): {'; '.join(repeated[:3])}",
                    at=self.output,
                    hint="return other keys, and pass --restart",
                )
            report = prepare.commit(plan.split, plan.files)
        return Outcome(self._complete(folder), (*warnings, *report.warnings))

    def is_lost(self, storage: Storage, result: TaskResult) -> bool:
        """Return True if a shard of a finished task is missing or has changed."""
        return not all(shard.is_current(storage) for shard in result.shards)

    def _carry(self, folder: Dataset, storage: Storage, shards: Sequence[WrittenShard]) -> tuple[str, ...]:
        """Write the columns and filters of the old dataset; return a warning for each that cannot be carried."""
        numbers = np.concatenate([shard.numbers for shard in shards])
        entries = shard_entries((shard.name, shard.size_bytes, shard.samples) for shard in shards)
        old = OldDataset(folder.path, folder.storage, folder.index.shards)
        carried = Carried()
        carried.write(NewOrder([old], [(0, numbers)], entries), storage)
        return tuple(carried.warnings)

    def _documents(self, folder: Dataset, part_names: set[str], kinds: set[str]) -> dict[str, str]:
        """Return ``dataset.yaml``: of typed samples, by their type; else the old one, if the parts are there."""
        if len(kinds) > 1:
            names = ", ".join(kind or "dictionaries" for kind in sorted(kinds))
            raise ConfigError(
                f"the function returned samples of several types: {names}",
                at=self.output,
                hint="return samples of one type",
            )
        for kind in filter(None, kinds):
            return {DATASET_YAML: SampleParts(kind).description()}
        config = folder.documents.config
        if config is not None and config.field_map is not None and not config.field_map.missing(sorted(part_names)):
            return carried_documents(folder)
        return {DATASET_YAML: str(description(CRUDE.name, None))}


@dataclass(frozen=True, kw_only=True)
class ToParts(ToDataset):
    """Write what the function returns as new parts, in a dataset next to the old one, and the join of both.

    The function returns a dictionary of parts; samples without one have no new parts.
    """

    target: ClassVar[str] = "parts"

    def check(self, folder: Dataset) -> None:
        """Raise an error if the join is impossible: no split, repeated keys, or a metadataset of this name."""
        super().check(folder)
        check_join(folder, self.output)
        if folder.index.layout.duplicate_keys:
            raise ConfigError(
                "several samples have one key, by which the new parts would be joined",
                at=folder.path,
                hint="give samples unique keys: energon prepare --fix-duplicates",
            )

    def _split_of(self, sample_index: int) -> str:  # noqa: ARG002 - all are in one part
        return ALL_PART

    def _outputs(self, value: Any, key: str) -> Iterator[tuple[str, dict[str, Any], str]]:
        if not isinstance(value, Mapping):
            raise SampleError(
                f'expected a dictionary of parts such as {{"caption.txt": text}}, found {type(value).__name__}'
            )
        given = {name: part for name, part in value.items() if name != "__key__"}
        yield from super()._outputs(given, key)

    def joined(self, folder: Dataset, earlier: Any, result: TaskResult) -> None:  # noqa: ARG002 - as of columns
        """Raise an error if a sample has a part that no join can have."""
        _check_part_names(folder, result.part_names)

    def _complete(self, folder: Dataset) -> tuple[str, ...]:
        """Write the metadataset that joins the new parts with the dataset."""
        return self.output, write_join(folder, self.output)

    def _carry(self, folder: Dataset, storage: Storage, shards: Sequence[WrittenShard]) -> tuple[str, ...]:  # noqa: ARG002
        return ()  # a join has the columns of its first dataset

    def _documents(self, folder: Dataset, part_names: set[str], kinds: set[str]) -> dict[str, str]:  # noqa: ARG002
        return {DATASET_YAML: str(description(CRUDE.name, None))}


def _check_part_names(folder: Dataset, names: Sequence[str]) -> None:
    """Raise a ``ConfigError`` for a part that the dataset has, or for which its joined samples have no field."""
    for name in names:
        if name in folder.index.part_names:
            raise ConfigError(
                f"the dataset has a part {name!r} already", at=folder.path, hint="return parts with other names"
            )
    check_fields(folder, names)


def _add_keys(keys: set[str], added: list[str]) -> None:
    """Add the keys of the samples that were returned for a sample to the keys of a task.

    Raises:
        SampleError: A key comes twice.
    """
    repeated = next((key for row, key in enumerate(added) if key in keys or key in added[:row]), None)
    if repeated is not None:
        raise SampleError(f"the key {repeated!r} was returned twice: return other keys")
    keys.update(added)


class _TaskShards:
    """The shards that a task writes for one split part."""

    def __init__(self, storage: Storage, stem: str, split: str) -> None:
        self.shards: list[WrittenShard] = []
        self._storage = storage
        self._stem = stem if not split or split == ALL_PART else f"{stem}_{split}"
        self._split = split
        self._open: OpenShard | None = None
        self._numbers: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        if self._open is not None and error is not None:
            self._open.abort(error)
        elif self._open is not None:
            self._finish(self._open)

    def write(self, key: str, parts: dict[str, Any], sample_index: int) -> None:
        if self._open is not None and self._open.file.size_bytes > _SHARD_BYTES:
            self._finish(self._open)
        if self._open is None:
            position = len(self.shards)
            self._open = OpenShard(self._storage, f"{self._stem}_{position:02d}.tar", position, self._split)
        self._open.write(key, parts)
        self._numbers.append(sample_index)

    def _finish(self, shard: OpenShard) -> None:
        self._open = None
        record = msgspec.structs.asdict(shard.finish())
        self.shards.append(WrittenShard(**record, made_of=np.array(self._numbers, "<i8").tobytes()))
        self._numbers = []


def output_of(
    ref: DatasetRef,
    *,
    write: Sequence[str] = (),
    to_filter: str | None = None,
    to_parts: str | None = None,
    to_dataset: str | None = None,
) -> tuple[MapOutput, str]:
    """Return the output of a map, and its name in the journal.

    Args:
        ref: The dataset.
        write: Names of columns.
        to_filter: Name of a filter.
        to_parts: Path of a new dataset of parts.
        to_dataset: Path of a new dataset of samples.

    Raises:
        ConfigError: None or several of the four are given.
    """
    given = [target for target in (write, to_filter, to_parts, to_dataset) if target]
    if len(given) != 1:
        raise ConfigError(f"expected one of write, to_filter, to_parts and to_dataset, found {len(given)}", at=ref.path)
    if write:
        return ToColumns(names=tuple(write), path=ref.path), f"write-{'-'.join(write)}"
    if to_filter:
        return ToFilter(name=to_filter, path=ref.path), f"filter-{to_filter}"
    if to_parts:
        return ToParts(ref=ref, output=resolve_path(to_parts)), ToParts.target
    return ToDataset(ref=ref, output=resolve_path(str(to_dataset))), ToDataset.target
