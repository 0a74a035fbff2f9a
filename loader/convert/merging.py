"""Merge prepared datasets into a new one, which appears whole or not at all."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from ..dataset.dataset import Dataset
from ..dataset.opening import folder_at
from ..dataset.tar import tar_index
from ..engine import Account
from ..errors import ConfigError, plural
from ..format.carry import Carried, NewOrder, OldDataset
from ..format.documents.next_command import quoted
from ..format.documents.split_config import SplitConfig, format_split_config, split_sample_name
from ..format.documents.subset import SubsetRange
from ..format.documents.yaml_document import parse_yaml
from ..format.index.current import shard_index_with_offsets
from ..format.index.dataset_index import DatasetIndex
from ..format.index.journal import save_scans
from ..format.index.layout import ShardEntry
from ..format.index.shard_index import ShardIndex
from ..format.media.tables import read_media_filter
from ..format.nv_meta import DATASET_YAML, FOLDER, SPLIT_YAML, TAR_IDX_SUFFIX
from ..format.tar.header import tar_idx_bytes
from ..prepare.plan import PartSize, PreparePlan, PrepareReport
from ..prepare.run import run_prepare
from ..storage import FileInfo, LocalStorage, flush_files, read_document, split_url
from .writing.new_output import NewOutput
from .writing.place_shard import ShardSource, check_linkable, place_shard

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_CODE = re.compile(r"[A-Za-z0-9_.-]+\.py")


@dataclass(frozen=True, slots=True, eq=False)
class MergeInput:
    """A dataset to merge."""

    path: str
    name: str
    folder: Dataset

    @property
    def index(self) -> DatasetIndex:
        return tar_index(self.folder)

    def new_name(self, shard: str) -> str:
        return f"{self.name}/{shard}"

    @property
    def entries(self) -> dict[str, ShardEntry]:
        return {self.new_name(shard.name): shard for shard in self.index.shards}


def open_inputs(paths: Sequence[str]) -> list[MergeInput]:
    """Open the datasets, and name the folders of their shards."""
    folders = [folder_at(path) for path in paths]
    seen: dict[str, str] = {}
    for path, folder in zip(paths, folders, strict=True):
        # Two paths may be one dataset.
        where = str(folder.storage.local_path("").resolve()) if not folder.storage.checks_versions else folder.path
        if where in seen:
            raise ConfigError(
                f"{seen[where]} and {path} are the same dataset",
                at=where,
                hint="name it once; to train on a dataset more often, mix it with repetitions in a metadataset",
            )
        seen[where] = path
    return [MergeInput(*each) for each in zip(paths, _folder_names(paths), folders, strict=True)]


def _folder_names(paths: Sequence[str]) -> list[str]:
    """Return a name for each dataset: its last path component, with the one above where these repeat, and a number.

    >>> _folder_names(["/a/coco", "s3://b/x/train", "/y/train"])
    ['coco', 'x-train', 'y-train']
    >>> _folder_names(["/a/x", "/b/a/x", "/c/.d"])
    ['a-x', 'a-x-2', 'd']
    """
    components = []
    # Make names of the components that file systems and keys allow.
    for path in paths:
        protocol, rest = split_url(path)
        pieces = [piece for piece in (rest if protocol else os.path.abspath(rest)).split("/") if piece]
        components.append([_UNSAFE.sub("_", piece).lstrip(".") or "dataset" for piece in pieces] or ["dataset"])
    last = [pieces[-1] for pieces in components]
    names: list[str] = []
    # Names that repeat get the component above, and then a number.
    for pieces in components:
        name = "-".join(pieces[-2:]) if last.count(pieces[-1]) > 1 else pieces[-1]
        count, unique = 1, name
        while unique in names:
            count += 1
            unique = f"{name}-{count}"
        names.append(unique)
    return names


def merged_files(inputs: Sequence[MergeInput]) -> dict[str, bytes]:
    """Return the files of ``.nv-meta`` that describe samples, and are the same in all inputs.

    Returns:
        Name → contents: ``dataset.yaml`` and the Python files that it names; empty if no input has one.
    """
    # Compare documents and code with those of the first input.
    first, *others = [_described(source) for source in inputs]
    for source, (document, code) in zip(inputs[1:], others, strict=True):
        difference = _difference(first[0], document) or next(
            (name for name in sorted({*first[1], *code}) if first[1].get(name) != code.get(name)), None
        )
        if difference is not None:
            raise ConfigError(
                f"the datasets describe their samples differently: {difference}",
                at=f"{inputs[0].path} and {source.path}: {FOLDER}/{DATASET_YAML}",
                hint="make the files equal, or merge with --crude, which leaves samples without a type",
            )
    if first[0] is None:
        return {}
    return {DATASET_YAML: read_document(inputs[0].folder.storage, f"{FOLDER}/{DATASET_YAML}"), **first[1]}


def _described(source: MergeInput) -> tuple[Any, dict[str, bytes]]:
    storage, file = source.folder.storage, f"{FOLDER}/{DATASET_YAML}"
    if not storage.exists(file):
        return None, {}
    document = parse_yaml(
        read_document(storage, file, is_short=True).decode("utf-8", "replace"), file=storage.path(file)
    )
    # Code that the document names is compared as bytes, and never run.
    code = {}
    for key in ("sample_loader", "part_filter"):
        value = document.get(key) if isinstance(document, dict) else None
        name = value.partition(":")[0] if isinstance(value, str) else ""
        if _CODE.fullmatch(name) and storage.exists(f"{FOLDER}/{name}"):
            code[name] = read_document(storage, f"{FOLDER}/{name}")
    return document, code


def _difference(first: Any, other: Any, path: str = "") -> str | None:
    """Describe the first difference of two documents; None if they are equal."""
    if isinstance(first, dict) and isinstance(other, dict):
        # Compare mappings key by key, so that the message names the key.
        for key in [*first, *(key for key in other if key not in first)]:
            inner = f"{path}.{key}" if path else str(key)
            if key not in first or key not in other:
                missing = first.get(key) if key in first else other.get(key)
                return f"{inner}: only one of them has it: {_short(missing)}"
            difference = _difference(first[key], other[key], inner)
            if difference is not None:
                return difference
        return None
    if first == other:
        return None
    # One of the documents is missing.
    if not path:
        return "one of them has no such file"
    return f"{path}: {_short(first)} and {_short(other)}"


def _short(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("\n...\n").strip()
    return text if len(text) <= 100 else f"{text[:99]}…"


def merged_split(inputs: Sequence[MergeInput]) -> SplitConfig:
    """Join the splits of datasets: parts of one name become one part."""
    parts: dict[str, list[str]] = {}
    exclude: list[str] = []
    ranges: dict[str, tuple[MergeInput, SubsetRange | None]] = {}
    for source in inputs:
        # Refuse filters, whose samples have other numbers in the new dataset.
        split = source.folder.documents.required_split()
        if split.sample_filters:
            raise ConfigError(
                f"part {next(iter(split.sample_filters))!r} of this dataset has a filter; parts with filters cannot be"
                " merged",
                at=source.path,
                hint=f"split it by shards: energon split {quoted(source.path)} --split-by shards; or mix the datasets"
                " in a metadataset",
            )
        # Join the parts of one name, which must have one range.
        known = source.folder.shard_counts
        for part, shards in split.split_parts.items():
            present = [source.new_name(shard) for shard in shards if shard in known]
            parts.setdefault(part, []).extend(present)
            if not present:
                continue
            part_range = split.sample_ranges.get(part)
            first, expected = ranges.setdefault(part, (source, part_range))
            if part_range != expected:
                raise ConfigError(
                    f"part {part!r} has {_shown(expected)} in {first.path}, and {_shown(part_range)} in {source.path};"
                    " a split file has one range for all shards of a part",
                    at=source.path,
                    hint=f"split one of them again, by shards: energon split {quoted(source.path)} --split-by shards",
                )
        # Exclude what the input excludes.
        names = frozenset(known)
        exclude += [source.new_name(name) for name in split.exclude if split_sample_name(name, names)[0] in known]
    return SplitConfig(
        split_parts={part: tuple(shards) for part, shards in parts.items()},
        exclude=tuple(exclude),
        sample_ranges={part: part_range for part, (_, part_range) in ranges.items() if part_range is not None},
    )


def _shown(samples: SubsetRange | None) -> str:
    return "whole shards" if samples is None else f"the samples {samples} of each shard"


ProgressCallback = Callable[[int, int], None]
"""Called with the number of shards, or of their bytes if they are copied, that are done, and of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """A merge of prepared datasets of tar shards into a new one.

    Attributes:
        inputs: Paths of the datasets; URLs are possible if shards are copied.
        output: Path of the new dataset, a new or empty folder of this machine.
        shards: How the new dataset has its shards: by relative symbolic links, by hard links, or as copies.
        rename_keys: Rename keys that several inputs have, in copies of the shards concerned.
        crude: Write no ``dataset.yaml``, so that the inputs' may differ.
        compat: Also write ``index.sqlite``, which megatron-energon needs to find samples by key.
        workers: Number of worker processes for shards that are rewritten.
        strict: Merge nothing if values of the inputs, such as columns, could not be carried.
    """

    inputs: tuple[str, ...]
    output: str
    shards: ShardSource = "reference"
    rename_keys: bool = False
    crude: bool = False
    compat: bool = False
    workers: int = 1
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """The outcome of a merge.

    Attributes:
        folders: Input → folder of its shards in the new dataset.
        columns: Names of the columns that were carried.
        filters: Names of the filters that were carried.
        duplicate_keys: Number of samples with the bare key of an earlier one.
        renamed_shards: Number of shards that were copied to rename keys.
    """

    output: str
    folders: Mapping[str, str]
    samples: int
    shards: int
    size_bytes: int = field(metadata={"json": "bytes"})
    split: Mapping[str, PartSize]
    columns: tuple[str, ...]
    filters: tuple[str, ...]
    duplicate_keys: int
    renamed_shards: int
    warnings: tuple[str, ...]
    account: Account
    seconds: float = field(metadata={"json": None})


_SCANS_AT_ONCE = 256


def run_merge(plan: MergePlan, *, on_progress: ProgressCallback | None = None) -> MergeReport:
    """Merge prepared datasets of tar shards into a new one.

    The shards of each input are in a folder of its own, so a sample is ``<input>/<shard>/<key>``. The index is
    assembled from the indexes of the inputs; no shard is scanned, except where keys are renamed. Parts of the splits
    with one name become one part. Columns and filters are carried if all inputs have them. The folder gets its name at
    the end, so that a kill at any moment leaves no dataset or the whole.

    Raises:
        IncompleteError: The plan is strict, and values could not be carried.
        ConfigError: The inputs do not fit together, or a setting is invalid.
        FormatError: A shard has changed since it was indexed.
        StorageError: The output is not empty, an input is missing, or a file cannot be written.
    """
    started = time.perf_counter()
    if len(plan.inputs) < 2:
        raise ConfigError("expected at least two datasets to merge", at=plan.output, hint="name them before the output")
    inputs = open_inputs(plan.inputs)
    if plan.shards != "copy":
        for source in inputs:
            check_linkable(source.folder)
    split = merged_split(inputs)
    files = {} if plan.crude else merged_files(inputs)
    # Place the shards, and assemble the index from the indexes of the inputs.
    with NewOutput(plan.output, plan.inputs) as output:
        storage = LocalStorage(output.folder)
        _place(inputs, storage, output.path, plan, on_progress)
        placed = _save_scans(inputs, storage)
        files[SPLIT_YAML] = format_split_config(split).encode()
        for name, data in files.items():
            storage.write(f"{FOLDER}/{name}", data)
        staged = storage.path("")
        prepare = PreparePlan(path=staged, workers=plan.workers, compat=False, fix_duplicates=plan.rename_keys)
        prepared = run_prepare(prepare)
        folder = folder_at(staged)
        _write_tar_idx(inputs, folder, placed)
        renamed = sum(shard.info != placed[shard.name] for shard in folder.index.shards)
        if plan.compat:
            run_prepare(PreparePlan(path=staged, workers=plan.workers, compat=True))
            folder = folder_at(staged)
        # Carry what all inputs have.
        carried = Carried()
        carried.write(_new_order(inputs, folder.index.shards), storage)
        # Compare the sums before the folder gets its name.
        account = Account()
        account.see("samples", sum(len(source.index) for source in inputs))
        account.see("files", sum(len(source.index.shards) for source in inputs))
        account.use("samples", prepared.samples)
        account.use("files", prepared.shards)
        account.take("bytes", prepared.size_bytes)
        for text in (*_media_warnings(inputs), *carried.warnings):
            account.lose("files", "L115", text)
        account.check()
        if plan.strict:
            account.check_complete(at=output.path)
    return MergeReport(
        output=output.path,
        folders={source.path: source.name for source in inputs},
        samples=prepared.samples,
        shards=prepared.shards,
        size_bytes=prepared.size_bytes,
        split=prepared.split,
        columns=tuple(carried.columns),
        filters=tuple(carried.filters),
        duplicate_keys=prepared.duplicate_keys,
        renamed_shards=renamed,
        warnings=(*_warnings(prepared), *_media_warnings(inputs), *carried.warnings),
        account=account,
        seconds=time.perf_counter() - started,
    )


def _place(
    inputs: Sequence[MergeInput],
    storage: LocalStorage,
    final: str,
    plan: MergePlan,
    on_progress: ProgressCallback | None,
) -> None:
    # Copies take time by their bytes, links by their number.
    in_bytes = plan.shards == "copy"
    shards = [shard for source in inputs for shard in source.index.shards]
    done, total = 0, sum(shard.size_bytes for shard in shards) if in_bytes else len(shards)
    for source in inputs:
        for name, shard in source.entries.items():
            place_shard(source.folder, shard, storage.path(name), plan.shards, final=os.path.dirname(f"{final}/{name}"))
            done += shard.size_bytes if in_bytes else 1
            if on_progress is not None:
                on_progress(done, total)
    if in_bytes:
        flush_files(storage, [name for source in inputs for name in source.entries])


def _save_scans(inputs: Sequence[MergeInput], storage: LocalStorage) -> dict[str, FileInfo]:
    """Store the indexes of all shards where a prepare finds them, which then scans none; return the shards' files."""
    files: dict[str, FileInfo] = {}
    scans: list[tuple[FileInfo, ShardIndex]] = []
    for source in inputs:
        for name, entry in source.entries.items():
            files[name] = storage.stat(name)
            scans.append((files[name], shard_index_with_offsets(source.folder.storage, source.index, entry)))
            # A file of the journal holds many scans: one each would take longer.
            if len(scans) == _SCANS_AT_ONCE:
                save_scans(storage, scans)
                scans.clear()
    if scans:
        save_scans(storage, scans)
    return files


def _write_tar_idx(inputs: Sequence[MergeInput], folder: Dataset, placed: Mapping[str, FileInfo]) -> None:
    """Write the ``.tar.idx`` files, without which megatron-energon cannot train; not for shards that need a scan."""
    sources = {name: (source, entry) for source in inputs for name, entry in source.entries.items()}
    for shard in tar_index(folder).shards:
        source, entry = sources[shard.name]
        offsets = tar_index(folder).sample_offsets(shard)
        # The new index may lack offsets that the input has.
        if not len(offsets) and shard.info == placed[shard.name]:
            offsets = shard_index_with_offsets(source.folder.storage, source.index, entry).sample_offsets
        if len(offsets):
            folder.storage.write(shard.name + TAR_IDX_SUFFIX, tar_idx_bytes(offsets), durable=False)


def _new_order(inputs: Sequence[MergeInput], shards: Sequence[ShardEntry]) -> NewOrder:
    old = [OldDataset(source.path, source.folder.storage, source.index.shards) for source in inputs]
    # Each shard has the samples of one range of its input.
    rows = {
        name: (position, range(shard.first_sample, shard.first_sample + shard.samples))
        for position, source in enumerate(inputs)
        for name, shard in source.entries.items()
    }
    return NewOrder(old, [rows[shard.name] for shard in shards], shards)


def _warnings(prepared: PrepareReport) -> Iterator[str]:
    yield from (warning for warning in prepared.warnings if "the key of a sample in another shard" not in warning)
    if prepared.duplicate_keys:
        yield (
            f"{plural(prepared.duplicate_keys, 'sample has', 'samples have')} the bare key of another one:"
            " looking it up finds several, and index.sqlite cannot be written; --rename-keys makes them unique"
        )


def _media_warnings(inputs: Sequence[MergeInput]) -> Iterator[str]:
    if any(read_media_filter(source.folder.storage) is not None for source in inputs):
        yield "media metadata was not carried: energon prepare with --media-metadata-by-… collects it again"
