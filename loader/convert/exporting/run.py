"""Copy a selection of samples out of a dataset, in another format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...errors import ConfigError
from ...format.dataset_folder import DatasetFolder
from ...format.query import SampleQuery, find_samples
from ...format.single_file import open_samples
from ..sources.dataset_samples import kept_parts, splits_of_samples
from .shard_copies import copy_shards
from .tables import HuggingFaceWriter, ParquetWriter
from .values import as_bytes, cell_kinds
from .writers import ExportedSample, FilesWriter, JsonlWriter, SampleWriter, TarWriter

__all__ = ["FORMATS", "ExportReport", "ExportRequest", "export_samples"]

FORMATS = ("files", "jsonl", "parquet", "hf", "tar", "webdataset")
"""``tar`` writes new shards; ``webdataset`` copies whole shards if all of their samples are chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The samples to copy, and where.

    Attributes:
        path: A prepared dataset, or a JSONL, token or Parquet file.
        output: A new folder; for ``"jsonl"`` and ``"parquet"``, a new file.
        format: One of :data:`FORMATS`.
        query: The samples.
        limit: Only so many of them; None for all.
        parts: Only parts of these names; None for all.
        keep_parts: Only parts that match one of these patterns; empty for all.
        drop_parts: No parts that match one of these patterns.
        by_shard: With ``"files"``, a folder for each shard.
        shard_bytes: With ``"tar"``, a shard ends with the sample that exceeds this size.
        link: With ``"webdataset"``, hard links instead of copies.
        raw: In tables, all parts as bytes.
        split_config: Name of the split file; None for the default one.
        meta_folder: Folder to use instead of ``.nv-meta``.
    """

    path: str
    output: str
    format: str = "files"
    query: SampleQuery = field(default_factory=SampleQuery)
    limit: int | None = None
    parts: tuple[str, ...] | None = None
    keep_parts: tuple[str, ...] = ()
    drop_parts: tuple[str, ...] = ()
    by_shard: bool = False
    shard_bytes: int = 1 << 30
    link: bool = False
    raw: bool = False
    split_config: str | None = None
    meta_folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """The result of a copy.

    Attributes:
        samples: Number of samples.
        size_bytes: Bytes of their parts; of whole shards, bytes of these.
        output: The folder or file.
    """

    samples: int
    size_bytes: int
    output: str


def export_samples(request: ExportRequest, on_progress: Callable[[int, int], None] | None = None) -> ExportReport:
    """Copy samples out of a dataset; after an error or a kill, nothing has the name of the output.

    Args:
        request: What to copy.
        on_progress: Called with the number of samples that are done, and of all.

    Raises:
        ConfigError: The query is invalid, or chooses no sample; or two samples have one name.
        FormatError: A shard has changed, or is damaged.
        SampleError: A value does not fit into the column of its part.
        StorageError: The dataset is not prepared; or the output exists, or cannot be written.
    """
    folder = open_samples(request.path, split_config=request.split_config, meta_folder=request.meta_folder)
    names = _part_names(folder, request)
    chosen = find_samples(folder, request.query)[: request.limit]
    if not len(chosen):
        raise ConfigError("no sample is chosen", at=request.path, hint="check the conditions")
    if request.format == "webdataset" and names is None and len(chosen) == len(folder.index) and not folder.records:
        size_bytes = copy_shards(folder, request.output, link=request.link, on_progress=on_progress)
        return ExportReport(samples=len(chosen), size_bytes=size_bytes, output=request.output)
    splits = splits_of_samples(folder) if request.format in ("parquet", "hf") else None
    size_bytes = 0
    with _writer(request, names, folder.index.part_names) as writer:
        for done, sample in enumerate(chosen.tolist()):
            if on_progress is not None and done % 100 == 0:
                on_progress(done, len(chosen))
            parts = {name: as_bytes(value) for name, value in folder.read_parts(sample, names).items()}
            size_bytes += sum(map(len, parts.values()))
            split = "" if splits is None else splits.name(sample)
            shard = folder.index.shard_of(sample).name
            writer.write(ExportedSample(shard, folder.index.key(sample), split, parts))
    folder.close()
    return ExportReport(samples=len(chosen), size_bytes=size_bytes, output=request.output)


def _part_names(folder: DatasetFolder, request: ExportRequest) -> tuple[str, ...] | None:
    if not (request.keep_parts or request.drop_parts):
        return request.parts
    return kept_parts(folder.index.part_names, keep=request.keep_parts, drop=request.drop_parts, at=folder.path)


def _writer(request: ExportRequest, names: Sequence[str] | None, all_names: Sequence[str]) -> SampleWriter:
    if request.link:
        raise ConfigError(
            "links are made of whole shards, and this export writes others",
            at=request.path,
            hint="export all samples with all parts as webdataset, or drop --link",
        )
    match request.format:
        case "files":
            return FilesWriter(request.output, by_shard=request.by_shard)
        case "tar" | "webdataset":
            return TarWriter(request.output, shard_bytes=request.shard_bytes)
        case "jsonl":
            return JsonlWriter(request.output)
        case "parquet":
            return ParquetWriter(request.output, cell_kinds(names or all_names, raw=request.raw))
        case "hf":
            return HuggingFaceWriter(request.output, cell_kinds(names or all_names, raw=request.raw))
    raise ConfigError(f"expected one of {', '.join(FORMATS)}, found {request.format!r}", hint="check --format")
