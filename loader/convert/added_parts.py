"""Add parts to the samples of a dataset: write them as a dataset of their own, and the metadataset that joins it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..dataset.opening import folder_at
from ..dataset.split_parts import excluded_samples
from ..dataset.tar import tar_index
from ..engine import Account
from ..engine.journal import AlreadyDoneError
from ..engine.run import RunsOnEngine
from ..errors import ConfigError, plural
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_files import read_shard_info
from ..format.documents.next_command import split_hint
from ..format.documents.sample_types import SAMPLE_TYPES
from ..format.index.dataset_index import DatasetIndex
from ..format.tar.names import split_member_name
from ..metadataset.documents.leaf_plan import Nonmatch
from ..metadataset.joins.prepare_join import JoinReport
from ..metadataset.joins.prepare_metadataset import prepare_metadataset
from ..own_names import CANONICAL
from ..storage import is_url, open_parent, open_storage, read_document
from ..storage.temporary_files import scratch_folder
from .importing.plan import ImportPlan, ProgressCallback
from .importing.run import run_import
from .rows.row import CellReader, FileRef, PartRef, Row
from .rows.shard_layout import ShardLayout
from .sources.dataset import ShardSource, splits_of_samples
from .sources.detect import open_source
from .sources.source import ImportSource, Listing
from .tables.delimited import DelimitedReader
from .tables.part_values import encode_json, value_ref
from .tables.records import open_text_table, read_json_lines
from .tables.source_options import SourceOptions
from .writing.new_output import remove_partials

_TABLES = (".jsonl", ".csv", ".tsv")
_KEYS = ("__key__", "key", "id")


def open_parts(path: str, *, key_column: str | None) -> ImportSource:
    """Open a source of parts by what is there.

    Args:
        path: A prepared dataset, a ``.jsonl``, ``.csv`` or ``.tsv`` file, or another source of an import.
        key_column: Column of a table with the keys; None takes ``__key__``, ``key`` or ``id``.
    """
    if path.lower().endswith(_TABLES):
        return KeyedTable(path=path, key_column=key_column)
    if not os.path.isfile(path) and read_shard_info(open_storage(path)) is not None:
        return ShardSource(ref=DatasetRef(path), keeps_splits=False)
    source = open_source(path, kind=None, options=SourceOptions(key=key_column))
    return FilesByKey(path=path) if source.kind == "folder" else source


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesByKey(ImportSource):
    """Files that are named as the members of shards: ``a/b.cap.txt`` is the part ``cap.txt`` of the key ``a/b``."""

    path: str
    kind: str = "folder"

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - files are read in any order
        storage = open_storage(self.path)
        named = ((split_member_name(file.name), file) for file in storage.list())
        members = ((name, file) for name, file in named if name is not None)
        for key, files in groupby(members, key=lambda member: member[0][0]):
            parts: dict[str, PartRef] = {
                part: FileRef(os.fsencode(storage.path(file.name)), file.size_bytes, file.version)
                for (_, part), file in files
            }
            yield Row(key=key, parts=parts, origin=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTable(ImportSource):
    """The rows of a JSONL, CSV or TSV file: texts are the parts ``<column>.txt``, other values ``<column>.json``.

    Attributes:
        key_column: Column of the keys; None takes the first of ``__key__``, ``key`` and ``id``.
    """

    path: str
    key_column: str | None = None
    kind: str = "table"

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - rows have values
        for line, record in self._records():
            # The key is in a column, which becomes no part.
            column = self._key(record, line)
            key = record.pop(column)
            if key is None or key == "":
                raise ConfigError(
                    f"the column {column!r} is empty in this line; expected the key of a sample",
                    at=f"{self.path}, line {line}",
                    hint="give the line a key, or remove it",
                )
            # Each other value becomes a part; nulls are no parts.
            parts: dict[str, PartRef] = {}
            for name, value in record.items():
                if value is not None:
                    part = _part_name(name)
                    is_text = isinstance(value, str)
                    data = value.encode("utf-8", "surrogatepass") if is_text else encode_json(value)
                    new = f"{part}.{'txt' if is_text else 'json'}"
                    # Names that differ in case or punctuation alone would be one part.
                    if new in parts:
                        raise ConfigError(
                            f"the column {name!r} and another one would both be the part {new!r}",
                            at=f"{self.path}, line {line}",
                            hint="give the columns names that differ in more than case and punctuation",
                        )
                    parts[new] = value_ref(data)
            yield Row(key=str(key), parts=parts, origin=f"{os.path.basename(self.path)}, line {line}")

    def _key(self, record: Mapping[str, Any], line: int) -> str:
        for name in _KEYS if self.key_column is None else (self.key_column,):
            if name in record:
                return name
        raise ConfigError(
            f"expected a column {' or '.join(_KEYS) if self.key_column is None else repr(self.key_column)} with the"
            f" keys, found {', '.join(map(str, list(record)[:20]))}",
            at=f"{self.path}, line {line}",
            hint="name the column of the keys with --key-column",
        )

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        kind = self.path.lower().rpartition(".")[2]
        with open_text_table(self.path) as file:
            is_json = kind == "jsonl"
            records = read_json_lines(file) if is_json else DelimitedReader(file, kind=kind, path=self.path).records()
            for record in records:
                if record.fault:
                    raise ConfigError(
                        f"this line is not a row: {record.fault}",
                        at=f"{self.path}, line {record.line}",
                        hint=record.hint or "correct or remove the line",
                    )
                # CSV does not distinguish an empty text from no value; here it is a part.
                values = record.values if is_json else {name: value or "" for name, value in record.values.items()}
                yield record.line, dict(values)


def _part_name(column: str) -> str:
    """Return the name of the part that a column becomes.

    >>> _part_name("Long Caption/en")
    'long_caption_en'
    """
    return "".join(c if c.isalnum() or c in "_-." else "_" for c in column.lower()).strip(".") or "_"


ALL_PART = "all"
"""The one split part of a dataset of added parts: the split of the first dataset applies."""

_MAX_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedSource(ImportSource):
    """The rows of another source that belong to samples of a dataset, under the keys of these.

    Attributes:
        rename: Part name → new name.
    """

    source: ImportSource
    dataset: str
    rename: Mapping[str, str] = field(default_factory=dict)
    kind: str = "added parts"

    @property
    def path(self) -> str:  # type: ignore[override]  # it never changes
        return self.source.path

    def rows(self, listing: Listing) -> Iterator[Row]:
        index = tar_index(folder_at(self.dataset))
        for row in self.source.rows(listing):
            samples = _find(index, row.key)
            if not samples:
                listing.account.lose("rows", "L112", row.key, size_bytes=max(0, row.size_bytes))
            else:
                parts = {self.rename.get(name, name): part for name, part in row.parts.items()}
                yield msgspec.structs.replace(row, key=index.key(samples[0]), parts=parts, split=ALL_PART)

    def open_cells(self) -> CellReader:
        return self.source.open_cells()


def _find(index: DatasetIndex, key: str) -> list[int]:
    """Return the samples that a join matches with a key; ``<shard>/<key>`` names one, and so all of its bare key."""
    samples = index.find_first_full(key)
    return samples if not samples or index.key(samples[0]) == key else index.find(index.key(samples[0]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatchCount:
    """Counts of rows and samples that match.

    Attributes:
        matched: Number of rows that belong to samples.
        unused: Number of rows that belong to none.
        parts: Part name → number of matched rows that have it, under its new name.
        has_parts: Shape (n,): True for the samples of the dataset that have a row.
    """

    matched: int
    unused: int
    unused_rows: tuple[str, ...]
    parts: Mapping[str, int]
    has_parts: npt.NDArray[np.bool_]


def count_matches(source: MatchedSource, folder: Dataset, *, scratch: str) -> MatchCount:
    """Compare the keys of a source with the keys of a dataset."""
    index = tar_index(folder)
    has_parts = np.zeros(len(index), np.bool_)
    parts: Counter[str] = Counter()
    matched, unused, shown = 0, 0, list[str]()
    for row in source.source.rows(Listing(scratch=scratch)):
        # Rows without a sample are counted, and the first ones named.
        samples = _find(index, row.key)
        if not samples:
            unused += 1
            shown += [row.key] * (len(shown) < _MAX_SHOWN)
            continue
        # The join would have two rows for the sample.
        if has_parts[samples[0]]:
            raise ConfigError(
                f"two rows belong to the sample {index.full_key(samples[0])!r}; one of them is {row.origin or row.key}",
                at=source.path,
                hint="remove one of them, or give the samples of the dataset unique keys: energon prepare"
                " --fix-duplicates",
            )
        has_parts[samples] = True
        matched += 1
        parts.update(source.rename.get(name, name) for name in row.parts)
    return MatchCount(matched=matched, unused=unused, unused_rows=tuple(shown), parts=parts, has_parts=has_parts)


_JOINER = f"{CANONICAL}:join_parts"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartsPlan(RunsOnEngine):
    """Parts to add to the samples of a dataset.

    Attributes:
        dataset: The dataset; nothing in it changes.
        source: Where the parts are: files named by key, a table with a column of keys, or a prepared dataset.
        output: Folder of the dataset of the parts, new or empty.
        metadataset: Path of the metadataset to write; None for ``<output>.yaml``.
        nonmatch: What happens to samples without parts: it is an error, they are skipped, or have no parts.
        rename: Part name of the source → name of the part.
        replace: The parts may have names that parts of the dataset have, and replace these.
        joiner: Joiner that the metadataset names, ``module:function`` or ``module:Class``.
        strict: Write nothing if a row belongs to no sample, or fails.
    """

    dataset: str
    source: str
    output: str
    metadataset: str | None = None
    nonmatch: Nonmatch = "error"
    rename: Mapping[str, str] = field(default_factory=dict)
    replace: bool = False
    key_column: str | None = None
    joiner: str = _JOINER
    layout: ShardLayout = field(default_factory=ShardLayout)
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartsReport:
    """The outcome.

    Attributes:
        parts: Part name → number of samples that have it.
        matched: Number of samples of the source that belong to samples of the dataset.
        missing: Number of samples of the dataset without parts, excluded ones not counted.
        unused: Number of samples of the source that belong to none.
        changed: As in :class:`ImportReport`.
        rows: Split part → number of joined samples.
    """

    output: str
    metadataset: str
    parts: Mapping[str, int]
    matched: int
    missing: int
    missing_keys: tuple[str, ...] = field(metadata={"json": None})
    unused: int
    unused_keys: tuple[str, ...] = field(metadata={"json": None})
    changed: Mapping[str, int] = field(metadata={"json": None})
    first_changed: Mapping[str, str] = field(metadata={"json": None})
    rows: Mapping[str, int]
    account: Account


def run_add_parts(plan: AddPartsPlan, *, on_progress: ProgressCallback | None = None) -> AddPartsReport:
    """Write parts as a dataset of their own, and a metadataset that joins it with the dataset by key.

    The metadataset has the split parts of the dataset. After an interruption, the same plan continues.

    Args:
        on_progress: Called while the parts are written.

    Raises:
        ConfigError: No key matches, samples without parts are an error, names of parts clash, or the output is in use.
        StorageError: A file cannot be read or written.
        SampleError: Too many rows cannot be read.
        ShareDone: The engine writes one share, and its shards are written.
    """
    # Compare the keys of the source with the keys of the dataset.
    folder = folder_at(plan.dataset)
    split = folder.documents.split
    if split is None or not any(split.split_parts.values()):
        raise ConfigError("this dataset has no split", at=folder.path, hint=split_hint(folder.path))
    inner = open_parts(plan.source, key_column=plan.key_column)
    source = MatchedSource(source=inner, dataset=plan.dataset, rename=plan.rename)
    with scratch_folder() as scratch:
        counted = count_matches(source, folder, scratch=scratch)
    # Samples that no split part has, or that are excluded, need no parts.
    lacking = np.flatnonzero((splits_of_samples(folder).number >= 0) & ~counted.has_parts)
    lacking = np.setdiff1d(lacking, excluded_samples(folder), assume_unique=True)
    _check(plan, folder, counted, lacking)
    # Write the parts, unless an earlier run has, and then the metadataset.
    join = _join_of(plan, folder)
    join.is_written()  # refuses another file of this name before parts are written
    try:
        imported = run_import(
            ImportPlan(
                sources=(source,),
                output=plan.output,
                layout=plan.layout,
                engine=plan.runs_on,
                command="add-parts",
                max_failures=0,
                strict=plan.strict,
            ),
            on_progress=on_progress,
        )
        account, changed, first_changed = imported.account, imported.changed, imported.first_changed
    except AlreadyDoneError:
        account, changed, first_changed = _account_of(counted, folder_at(plan.output)), {}, {}
    return AddPartsReport(
        output=plan.output,
        metadataset=join.path,
        parts=dict(sorted(counted.parts.items())),
        matched=counted.matched,
        missing=len(lacking),
        missing_keys=tuple(folder.index.full_key(sample) for sample in lacking[:5].tolist()),
        unused=counted.unused,
        unused_keys=counted.unused_rows,
        changed=changed,
        first_changed=first_changed,
        account=account,
        rows={report.place.removeprefix("splits."): report.rows for report in join.write()},
    )


def _account_of(counted: MatchCount, written: Dataset) -> Account:
    account = Account()
    account.take("rows", counted.matched)
    account.take("parts", sum(counted.parts.values()))
    account.take("bytes", sum(part.total_bytes for part in tar_index(written).layout.part_stats))
    account.lose("rows", "L112", next(iter(counted.unused_rows), ""), count=counted.unused)
    return account


def _check(plan: AddPartsPlan, folder: Dataset, counted: MatchCount, lacking: IntArray) -> None:
    # Check that keys match.
    if not counted.matched:
        raise ConfigError(
            f"no key of the {plural(counted.unused, 'sample')} in {plan.source} is one of the dataset; the source has"
            f" {', '.join(map(repr, counted.unused_rows)) or 'none'}, the dataset {tar_index(folder).key(0)!r}",
            at=folder.path,
            hint="name files, or rows by --key-column, after the keys that energon preview shows",
        )
    if plan.nonmatch == "error" and len(lacking):
        raise ConfigError(
            f"{plural(len(lacking), 'sample')} of the dataset have no parts in {plan.source}, first"
            f" {folder.index.full_key(int(lacking[0]))!r}",
            at=folder.path,
            hint="pass --nonmatch skip, which skips them, or --nonmatch none, which leaves them without these parts",
        )
    # Check the names of the new parts.
    clashing = [name for name in counted.parts if name in tar_index(folder).part_names]
    if clashing and not plan.replace:
        raise ConfigError(
            f"the dataset has a part {clashing[0]!r} already",
            at=folder.path,
            hint=f"rename the new one: --rename {clashing[0]}=new.{clashing[0]}; or replace it: --replace",
        )
    # The type of other joiners is unknown.
    if plan.joiner == _JOINER:
        joiner_hint = "or name a joiner of your own: --joiner MODULE:FUNCTION"
        check_fields(folder, counted.parts, hint=f"--rename {{part}}={{better}}; {joiner_hint}")


def check_fields(folder: Dataset, parts: Iterable[str], *, hint: str = "{better}") -> None:
    """Raise a ``ConfigError`` for a part without a field in joined samples; ``hint`` names it ``{better}``."""
    config = folder.documents.config
    spec = SAMPLE_TYPES.get(config.sample_type or "") if config is not None else None
    if spec is None or spec.crude:
        return
    fields = [field_spec.name for field_spec in spec.fields]
    unknown = next((name for name in parts if name.partition(".")[0] not in fields), None)
    if unknown is not None:
        better = hint.format(part=unknown, better=f"{fields[-1]}.{unknown}")
        raise ConfigError(
            f"samples of the dataset are {spec.name}s, which have no field for the part {unknown!r}",
            at=folder.path,
            hint=f"name it after one of {', '.join(fields)}: {better}",
        )


class _Join(NamedTuple):
    """The metadataset that joins a dataset with one of new parts."""

    path: str
    text: str

    def is_written(self) -> bool:
        """Return True if the file has this text, False if there is none; one with other contents is an error."""
        storage, name = open_parent(self.path)
        if not storage.exists(name):
            return False
        # A metadataset with other contents is never overwritten.
        if read_document(storage, name).decode("utf-8", "replace") != self.text:
            raise ConfigError(
                "this metadataset exists, with other contents",
                file=self.path,
                hint="name another one with --metadataset",
            )
        return True

    def write(self) -> tuple[JoinReport, ...]:
        """Write the file, unless an earlier run has, and prepare it."""
        if not self.is_written():
            storage, name = open_parent(self.path)
            storage.write(name, self.text.encode())
        remove_partials(self.path)
        return prepare_metadataset(self.path, compat=False)


def _join_of(plan: AddPartsPlan, folder: Dataset) -> _Join:
    import yaml

    from ..format.documents.yaml_document import PlainDumper

    file = plan.metadataset or f"{plan.output.rstrip('/')}.yaml"
    module, _, name = plan.joiner.partition(":")
    if not module or not name:
        raise ConfigError(f"expected MODULE:FUNCTION or MODULE:Class as the joiner, found {plan.joiner!r}")
    kind = "__class__" if name.rpartition(".")[2][:1].isupper() else "__function__"
    # The added dataset has one part, and the split of the first dataset applies.
    added = {"path": _relative(plan.output, file), "split_part": ALL_PART}
    if plan.nonmatch != "error":
        added["nonmatch"] = plan.nonmatch
    # Each split joins the part of its name.
    splits = {
        part: {
            "join": [{"path": _relative(plan.dataset, file), "split_part": part}, added],
            "joiner": {"__module__": module, kind: name},
        }
        for part, shards in folder.documents.required_split().split_parts.items()
        if shards
    }
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": splits}
    return _Join(file, yaml.dump(document, Dumper=PlainDumper, sort_keys=False, allow_unicode=True))


def _relative(path: str, file: str) -> str:
    if is_url(path) or is_url(file):
        return path if is_url(path) else os.path.abspath(path)
    return os.path.relpath(path, os.path.dirname(os.path.abspath(file)))


def check_join(folder: Dataset, output: str) -> None:
    """Raise a ``ConfigError`` if a dataset cannot be joined with new parts: it has no split, or the file has a use.

    Args:
        folder: The dataset.
        output: Path of the dataset of the parts; the metadataset is next to it.
    """
    _join_with(folder, output).is_written()


def write_join(folder: Dataset, output: str) -> str:
    """Write the metadataset that joins a dataset with one of new parts, and return its path.

    Samples without new parts are in it, too.

    Args:
        folder: The dataset.
        output: Path of the prepared dataset of the parts; the metadataset is next to it.
    """
    join = _join_with(folder, output)
    join.write()
    return join.path


def _join_with(folder: Dataset, output: str) -> _Join:
    return _join_of(AddPartsPlan(dataset=folder.path, source=output, output=output, nonmatch="none"), folder)
