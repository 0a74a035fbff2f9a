"""Copy a selection of samples out of a dataset, in another format."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace

import numpy as np

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..dataset.job_journal import request_of_data, request_of_metadata
from ..dataset.query import SampleQuery
from ..dataset.tar import tar_index
from ..engine import Account
from ..engine.journal import SHARDS, Job, output_exists
from ..engine.run import Engine
from ..errors import ConfigError, SampleError
from ..format.dataset_ref import DatasetRef
from ..format.tar.names import decode_name, is_outside_name, printable, split_member_name
from ..format.tar.scan import TarScan, read_members
from ..metadataset.datasets import ChosenSamples, choose_samples, named_datasets, open_datasets
from ..parts.kinds import kind_of_name
from ..storage import LocalStorage, is_hub_url
from .export_pieces import Pieces, ReadRequest, SampleWithRepeats, digest_of_samples
from .sources.dataset import kept_parts
from .split_groups import ALONE, find_groups
from .writing.chunk_writers import LitdataWriter, MdsWriter
from .writing.hub_output import new_output_folder
from .writing.new_output import NewOutput, check_new_output, remove_partials, written_output
from .writing.place_shard import ShardSource, place_shard
from .writing.sample_writers import (
    CellKind,
    ExportedSample,
    FilesWriter,
    HuggingFaceWriter,
    JsonlWriter,
    ParquetWriter,
    SampleWriter,
    TarWriter,
    cell_kinds,
)

FORMATS = ("files", "class-folders", "jsonl", "parquet", "hf", "tar", "webdataset", "mds", "litdata")
"""``tar`` writes new shards; ``webdataset`` copies whole shards if all of their samples are chosen."""


_MOST_CLASSES = 1_000_000  # their names are in the head of each table
_TARS = ("tar", "webdataset")  # their members have the names of samples
_NO_OPTIONS = ("refs", "output", "query", "engine")  # of a request: they say which samples, and where
_WITHOUT_ROWS = ("files", "class-folders", "tar", "webdataset")  # a sample without parts leaves no trace in them


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The samples to copy, and where.

    Attributes:
        refs: Datasets, files of samples, tar shards that are not prepared, and metadatasets, which stand for the
            datasets that they read.
        output: A new folder; for ``"jsonl"`` and ``"parquet"``, a new file.
        limit: Only so many of them; None for all.
        keep_parts: Only parts that match one of these patterns; empty for all.
        drop_parts: No parts that match one of these patterns.
        by_shard: With files, a folder for each shard.
        label: The column or value that names the class of a sample: its folder with ``"class-folders"``, by default
            ``cls``, and in tables the name of the number in its label.
        shard_bytes: With ``"tar"``, a shard ends before the sample that would exceed this size.
        link: With ``"webdataset"``, hard links instead of copies.
        raw: In tables and chunks, all parts as bytes.
        strict: Write nothing if a chosen sample would be left out.
        engine: Where samples are read, and which share of them; None reads them in this process.
    """

    refs: Sequence[DatasetRef]
    output: str
    format: str = "files"
    query: SampleQuery = field(default_factory=SampleQuery)
    limit: int | None = None
    keep_parts: tuple[str, ...] = ()
    drop_parts: tuple[str, ...] = ()
    by_shard: bool = False
    label: str | None = None
    shard_bytes: int = 1 << 30
    link: bool = False
    raw: bool = False
    strict: bool = False
    engine: Engine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """The result of a copy.

    Attributes:
        size_bytes: Bytes of their parts; of whole shards, bytes of these.
        notes: Datasets without a column or part of the condition; no sample of them is copied.
    """

    samples: int
    size_bytes: int
    output: str
    notes: tuple[str, ...] = field(default=(), metadata={"json": None})
    account: Account = field(default_factory=Account)


def export_samples(request: ExportRequest, on_progress: Callable[[int, int], None] | None = None) -> ExportReport:
    """Copy samples out of datasets; after an error or a kill, nothing has the name of the output.

    Samples of several datasets follow one another. The names of their shards then begin with the dataset's name.

    With an engine of several workers, an executor or a share, tasks read the samples into pieces next to the output,
    and this process, or the merge of all shares, writes them as one process would.

    Args:
        on_progress: Called with the number of samples that are done, and of all.

    Raises:
        IncompleteError: The request is strict, and a chosen sample or part would be left out.
        ConfigError: The query is invalid, or chooses no sample; or two samples have one name.
        FormatError: A shard has changed, or is damaged.
        SampleError: A value does not fit into the column of its part.
        StorageError: A dataset is missing; or the output exists, or cannot be written.
        ShareDone: The engine reads one share, and its samples are read.
    """
    if is_hub_url(request.output):
        sources = [ref.path for ref in request.refs]
        with new_output_folder(request.output, sources=sources, engine=request.engine) as path:
            return replace(export_samples(replace(request, output=path), on_progress), output=request.output)
    engine = request.engine or Engine()
    earlier = written_output(request.output)
    if earlier is None:
        check_new_output(request.output, is_file=request.format in _FILES)
    named = named_datasets(request.refs, split_parts=request.query.split_parts)
    at = ", ".join(ref.path for ref in request.refs)
    with open_datasets(named) as opened:
        # Choose the parts.
        every = list(dict.fromkeys(name for dataset in opened for name in dataset.folder.index.part_names))
        keep, drop = request.keep_parts, request.drop_parts
        if request.format == "class-folders" and not keep:
            keep = tuple(name for name in every if kind_of_name(name) == "image")
            if not keep:
                raise ConfigError(f"no part is a picture, but {', '.join(every)}", at=at, hint="name parts: --parts")
        names = kept_parts(every, keep=keep, drop=drop, at=at) if keep or drop else None
        # Choose the samples.
        chosen = choose_samples(opened, request.query, at=at)
        total = sum(len(choice.numbers) for choice in chosen)
        total = total if request.limit is None else min(total, request.limit)
        if not total:
            raise ConfigError("no sample is chosen", at=at, hint="check the conditions")
        job = _job(request, chosen)
        if earlier is not None:
            remove_partials(request.output)
            Pieces(request.output, engine, {}).remove()
            raise output_exists(earlier, job, at=request.output)
        account = _account_of(chosen)
        account.see("samples", total)
        notes = tuple(f"no sample of {each.opened.dataset.path}: it has {each.lacks}" for each in chosen if each.lacks)
        folder = opened[0].folder
        # Whole shards are copied if nothing in them is left out.
        is_whole = len(opened) == 1 and total == len(folder.index) and names is None
        is_whole = is_whole and request.format == folder.format == "webdataset"
        is_whole = is_whole and not outside_members(folder, account)
        pieces = _pieces(request, engine, chosen, job, is_whole=is_whole)

        def advance(done: int) -> None:
            if on_progress is not None:
                on_progress(min(done, total), total)

        if is_whole:
            with nullcontext() if pieces is None else pieces.locked():
                size_bytes = _copy_shards(folder, request, job, pieces, on_progress=advance)
            account.use("samples", total)
            account.take("bytes", size_bytes)
            return ExportReport(samples=total, size_bytes=size_bytes, output=request.output, account=account)
        # Read samples one by one, or in pieces.
        read = ReadRequest(
            refs=tuple(each.dataset.ref.resolved() for each in opened),
            prefixes=tuple(each.name if each.folder.is_file else f"{each.name}/" for each in opened)
            if len(opened) > 1
            else (),
            names=names,
            has_splits=request.format in ("parquet", "hf"),  # only tables have a column of splits
        )
        with nullcontext() if pieces is None else pieces.locked():
            if pieces is None:
                samples, on_write = _read(read, chosen, total), advance
            else:
                samples, on_write = pieces.of_samples(read, _limited(chosen, total), on_progress=advance), None
            if request.format == "class-folders":
                samples = _labelled(request, samples, chosen)
            writer = _writer(request, names or every, chosen, at)
            written, size_bytes = _write(request, job, samples, writer, account, on_progress=on_write)
    return ExportReport(samples=written, size_bytes=size_bytes, output=request.output, notes=notes, account=account)


_FILES = ("jsonl", "parquet")
# Columns that rows have besides the parts, by format.
_COLUMNS = {
    **dict.fromkeys(("jsonl", "hf", "mds", "litdata"), frozenset(("__key__",))),
    "parquet": frozenset(("__key__", "__split__")),
}


def _pieces(
    request: ExportRequest, engine: Engine, chosen: Sequence[ChosenSamples], job: Job, *, is_whole: bool
) -> Pieces | None:
    """Return where workers and shares leave what they read; None if this process reads the samples."""
    if not (engine.is_partial or engine.executor is not None or engine.workers > 1) or (is_whole and request.link):
        if engine.is_partial:
            raise ConfigError(
                "hard links are made at once, and not in shares", at=request.output, hint="drop --share or --link"
            )
        return None
    unprepared = next((each.opened.dataset.path for each in chosen if each.opened.is_temporary), None)
    if unprepared is not None:
        raise ConfigError(
            "workers and shares read datasets with an index, and this one has none",
            at=unprepared,
            hint="energon prepare it, or export it in one process: --num-workers 1",
        )
    # Only the end of the export is strict, so that shares need not name it.
    return Pieces(request.output, engine, {name: fact for name, fact in job.request.items() if name != "strict"})


def _job(request: ExportRequest, chosen: Sequence[ChosenSamples]) -> Job:
    """Describe what an export writes; paths, which may have secrets, as digests."""
    data = []
    for each in chosen:
        folder, path = each.opened.folder, each.opened.dataset.path
        # The index of shards that are not prepared is another one in each run.
        others = {"dataset": path} if each.opened.is_temporary else request_of_metadata(folder)
        data.append({**request_of_data(folder), **others})
    options = [each.name for each in fields(request) if each.name not in _NO_OPTIONS]
    return Job(
        command="export",
        request={
            SHARDS: hashlib.sha256(str(data).encode("utf-8", "surrogateescape")).hexdigest(),
            "samples": digest_of_samples([each.numbers for each in chosen]),
            **{name.replace("_", " "): str(getattr(request, name)) for name in options},
        },
        tasks=0,
    )


def _read(read: ReadRequest, chosen: Sequence[ChosenSamples], total: int) -> Iterator[SampleWithRepeats]:
    """Yield the first chosen samples."""
    for dataset, numbers in enumerate(_limited(chosen, total)):
        folder = chosen[dataset].opened.folder
        yield from read.read(folder, dataset, numbers)
        folder.close()


def _labelled(
    request: ExportRequest, samples: Iterable[SampleWithRepeats], chosen: Sequence[ChosenSamples]
) -> Iterator[SampleWithRepeats]:
    """Yield samples with their labels, which are read when the first sample is here; a share yields none."""
    label, labels = request.label or "cls", None
    for read in samples:
        labels = labels or iter(_labels(chosen, label))
        text, names = next(labels), ", ".join(read.sample.parts)
        fault = f"this sample has no value {label!r}, which names its folder" if text.startswith(ALONE) else ""
        if len(read.sample.parts) > 1 and not request.keep_parts:
            fault = f"this sample has several pictures, {names}, which would be several samples of its class"
        if fault:
            raise SampleError(
                fault,
                key=read.sample.full_key,
                source=read.sample.full_key,
                hint="choose one part (--parts), samples that have the value (--where), or another value: --label",
            )
        yield read._replace(sample=read.sample._replace(label=text))


def _labels(chosen: Sequence[ChosenSamples], label: str) -> list[str]:
    """Return the labels of the chosen samples; numbers have leading zeros, so that names sort as numbers do."""
    labels, known = list[str](), set[str]()
    for each in chosen:
        groups = find_groups(each.opened.folder, label)
        labels += [groups.names[group] for group in groups.numbers[each.numbers].tolist()]
        known.update(text for text in groups.names if not text.startswith(ALONE))
    # All samples of the datasets decide, so that exports of each split part have the same names.
    width = max(map(len, known), default=0) if all(map(str.isdecimal, known)) else 0
    if len({text.zfill(width) for text in known}) < len(known):
        width = 0  # "1" and "01" are two labels
    return [text if text.startswith(ALONE) else text.zfill(width) for text in labels]


def _columns(
    request: ExportRequest, columns: Sequence[str], chosen: Sequence[ChosenSamples]
) -> tuple[dict[str, CellKind], list[str]]:
    """Return the columns of a table, and the names of its classes if the request names a label."""
    kinds = cell_kinds(columns, raw=request.raw)
    labels = [name for name, kind in kinds.items() if kind == "label"]
    is_share = request.engine is not None and request.engine.share is not None  # which writes no table
    if request.label is None or is_share:
        return kinds, []
    if len(labels) != 1:
        raise ConfigError(
            f"the names of {request.label!r} belong to one part with numbers of classes, found {len(labels)}",
            hint="choose it (--parts), or drop --label",
        )
    return kinds, _class_names(chosen, labels[0], request.label)


def _class_names(chosen: Sequence[ChosenSamples], numbers: str, names: str) -> list[str]:
    """Return the names of classes by their numbers; a class that no chosen sample has is called by its number."""
    pairs = set(zip(_labels(chosen, numbers), _labels(chosen, names), strict=True))
    pairs = {(label, name) for label, name in pairs if not label.startswith(ALONE)}
    named = {int(label): name for label, name in pairs if label.isdecimal() and not name.startswith(ALONE)}
    most = max(named, default=0)
    if not len(pairs) == len(named) == len({*named.values()}) or most > _MOST_CLASSES:
        raise ConfigError(
            f"{names!r} does not give each number in {numbers!r} a name of its own",
            hint="name another value, or drop --label",
        )
    return [named.get(label, str(label)) for label in range(most + 1)]


def _limited(chosen: Sequence[ChosenSamples], total: int) -> list[IntArray]:
    """Return the numbers of the first chosen samples of each dataset."""
    limited = []
    for choice in chosen:
        limited.append(choice.numbers[:total])
        total -= len(limited[-1])
    return limited


def _write(
    request: ExportRequest,
    job: Job,
    samples: Iterable[SampleWithRepeats],
    writer: SampleWriter,
    account: Account,
    *,
    on_progress: Callable[[int], None] | None,
) -> tuple[int, int]:
    """Write samples; return their number and the bytes of their parts."""
    written = size_bytes = 0
    with writer:
        writer.job = job
        for done, (sample, repeated) in enumerate(samples):
            if on_progress is not None and done % 100 == 0:
                on_progress(done)
            for name, count in repeated:
                account.see("parts", count - 1)
                account.leave("parts", "L106", f"{sample.full_key}.{name}", count=count - 1)
            # A sample that the format cannot represent is counted with its reason.
            reason = _reason_to_leave(sample, request.format)
            if reason:
                account.leave("samples", reason, printable(sample.full_key))
                continue
            size_bytes += sum(map(len, sample.parts.values()))
            writer.write(sample)
            account.take("parts", len(sample.parts))
            account.use("samples")
            written += 1
        account.take("bytes", size_bytes)
        account.check()
        if request.strict:
            account.check_complete(at=request.output)
    return written, size_bytes


def _reason_to_leave(sample: ExportedSample, format: str) -> str:  # noqa: A002 - the name of the attribute
    """Return the code of the reason for which a sample is not written; an empty text for none."""
    if not sample.parts and format in _WITHOUT_ROWS:
        return "L113"
    return "L121" if format in _TARS and is_outside_name(sample.key) else ""


def _account_of(chosen: Sequence[ChosenSamples]) -> Account:
    account = Account()
    for choice in chosen:
        if choice.lacks:
            path, samples = choice.opened.dataset.path, len(choice.opened.folder.index)
            account.lose("samples", "L114", f"{path}: it has {choice.lacks}", count=samples)
    return account


def _writer(request: ExportRequest, columns: Sequence[str], chosen: Sequence[ChosenSamples], at: str) -> SampleWriter:
    # Refuse what the format cannot hold.
    if request.link:
        raise ConfigError(
            "links are made of whole shards, and this export writes others",
            at=at,
            hint="export all samples with all parts as webdataset, or drop --link",
        )
    if taken := sorted(_COLUMNS.get(request.format, frozenset()) & {*columns}):
        raise ConfigError(
            f"samples have a part {taken[0]!r}, and rows of this format have a column of this name",
            at=at,
            hint="choose the other parts (--parts), or export tar shards",
        )
    # Make the writer.
    match request.format:
        case "files":
            return FilesWriter(request.output, by_shard=request.by_shard)
        case "class-folders":
            return FilesWriter(request.output, by_shard=request.by_shard, by_label=True)
        case "tar" | "webdataset":
            return TarWriter(request.output, shard_bytes=request.shard_bytes)
        case "jsonl":
            return JsonlWriter(request.output)
        case "parquet":
            return ParquetWriter(request.output, *_columns(request, columns, chosen))
        case "hf":
            return HuggingFaceWriter(request.output, *_columns(request, columns, chosen))
        case "mds":
            return MdsWriter(request.output, cell_kinds(columns), raw=request.raw)
        case "litdata":
            return LitdataWriter(request.output, cell_kinds(columns), raw=request.raw)
    raise ConfigError(f"expected one of {', '.join(FORMATS)}, found {request.format!r}", hint="check --format")


def outside_members(folder: Dataset, account: Account) -> bool:
    """Return True if shards have members or links that lead out of a folder; count those that belong to no sample."""
    has_outside = False
    for shard in tar_index(folder).shards:
        with folder.open_shard(shard) as file:
            scan = TarScan(file.size_bytes, shard.name)
            names: list[bytes] = []
            for batch in read_members(file, scan):
                # Look at names that may lead out; the exact test is slow.
                suspect = np.strings.startswith(batch.names, b"/") | (np.strings.find(batch.names, b"..") >= 0)
                names += batch.names[suspect].tolist()
            links = [link.name for link in scan.links if is_outside_name(decode_name(link.target))]
        outside = [name for name in map(decode_name, names) if is_outside_name(name)]
        has_outside |= bool(outside or links)
        others = [*(name for name in outside if split_member_name(name) is None), *map(decode_name, links)]
        for name in others:
            account.lose("members", "L121", f"{shard.name}, {printable(name)}")
    return has_outside


def _copy_shards(
    folder: Dataset, request: ExportRequest, job: Job, pieces: Pieces | None, *, on_progress: Callable[[int], None]
) -> int:
    """Copy all shards of a dataset of tar shards to a new folder, or link to the copies of workers; return bytes."""
    shards = tar_index(folder).shards
    how: ShardSource = "link" if request.link and isinstance(folder.storage, LocalStorage) else "copy"
    if pieces is not None:
        pieces.copy_shards(folder, folder.ref.resolved(), on_progress=on_progress)
    with NewOutput(request.output) as target:
        target.job = job
        for shard in shards:
            path = os.path.join(target.folder, shard.name)
            if pieces is None:
                on_progress(shard.first_sample)
                place_shard(folder, shard, path, how, final=target.path)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.link(pieces.path_of_shard(shard.name), path)  # a killed merge can begin again
    return sum(shard.size_bytes for shard in shards)
