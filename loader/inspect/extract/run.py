"""Copy a selection of samples out of a dataset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...errors import ConfigError
from ...format.single_file import open_samples
from ..mount.dataset_files import as_bytes
from ..query import SampleQuery, find_samples
from .writers import FilesWriter, JsonlWriter, TarWriter

__all__ = ["FORMATS", "ExtractReport", "ExtractRequest", "extract_samples"]

FORMATS = ("files", "tar", "jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractRequest:
    """The samples to copy, and where.

    Attributes:
        path: A prepared dataset, or a JSONL, token or Parquet file.
        output: A new folder; for ``"jsonl"``, a new file.
        format: One of :data:`FORMATS`.
        query: The samples.
        limit: Only so many of them; None for all.
        parts: Only parts of these names; None for all.
        by_shard: With ``"files"``, a folder for each shard.
        shard_bytes: With ``"tar"``, a shard ends with the sample that exceeds this size.
        split_config: Name of the split file; None for the default one.
        meta_folder: Folder to use instead of ``.nv-meta``.
    """

    path: str
    output: str
    format: str = "files"
    query: SampleQuery = field(default_factory=SampleQuery)
    limit: int | None = None
    parts: tuple[str, ...] | None = None
    by_shard: bool = False
    shard_bytes: int = 1 << 30
    split_config: str | None = None
    meta_folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractReport:
    """The result of a copy.

    Attributes:
        samples: Number of samples.
        size_bytes: Bytes of their parts.
        output: The folder or file.
    """

    samples: int
    size_bytes: int
    output: str


def extract_samples(request: ExtractRequest, on_progress: Callable[[int, int], None] | None = None) -> ExtractReport:
    """Copy samples out of a dataset; after an error or a kill, nothing has the name of the output.

    Args:
        request: What to copy.
        on_progress: Called with the number of samples that are done, and of all.

    Raises:
        ConfigError: The query is invalid, or chooses no sample; or two samples have one name.
        FormatError: A shard has changed, or is damaged.
        StorageError: The dataset is not prepared; or the output exists, or cannot be written.
    """
    folder = open_samples(request.path, split_config=request.split_config, meta_folder=request.meta_folder)
    chosen = find_samples(folder, request.query)[: request.limit]
    if not len(chosen):
        raise ConfigError("no sample is chosen", at=request.path, hint="check the conditions")
    size_bytes = 0
    with _writer(request) as writer:
        for done, sample in enumerate(chosen.tolist()):
            if on_progress is not None and done % 100 == 0:
                on_progress(done, len(chosen))
            parts = {name: as_bytes(value) for name, value in folder.read_parts(sample, request.parts).items()}
            size_bytes += sum(map(len, parts.values()))
            writer.write(folder.index.shard_of(sample).name, folder.index.key(sample), parts)
    folder.close()
    return ExtractReport(samples=len(chosen), size_bytes=size_bytes, output=request.output)


def _writer(request: ExtractRequest) -> FilesWriter | TarWriter | JsonlWriter:
    match request.format:
        case "files":
            return FilesWriter(request.output, by_shard=request.by_shard)
        case "tar":
            return TarWriter(request.output, shard_bytes=request.shard_bytes)
        case "jsonl":
            return JsonlWriter(request.output)
    raise ConfigError(f"expected one of {', '.join(FORMATS)}, found {request.format!r}", hint="check --format")
