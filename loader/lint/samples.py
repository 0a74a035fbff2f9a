"""Check samples of tar shards: their headers, names and keys; the rules are of samples of any kind of data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

from ..dataset.dataset import Dataset
from ..dataset.tar import tar_index
from ..errors import plural
from ..format.documents.dataset_config import DatasetConfig
from ..format.index.dataset_index import DatasetIndex, repeated_samples
from ..format.index.layout import once_warning
from ..format.index.shard_index import ShardIndex
from ..format.jsonl.lines import BYTE_ORDER_MARK
from ..parts.kinds import kind_of_name
from .rule import DATASETS, SHARDS, TARS, Finding, LintRule, LintRules, ReadSample, ScannedShard


def _check_parts(scan: ScannedShard) -> Iterator[Finding]:
    if scan.has_changed_size:
        return
    # Map parts to samples.
    shard, scanned = scan.name, scan.headers
    counts = np.diff(scanned.part_ends, prepend=0)
    sample_of = np.repeat(np.arange(len(scanned)), counts)  # (p,)
    keys = scanned.keys()

    def at(row: int, rule: LintRule, message: str) -> Finding:
        part = scanned.part_names[int(scanned.part_name[row])]
        offset = int(scanned.part_offset[row])
        return Finding(rule, message, shard=shard, key=keys[sample_of[row]], part=part, offset=offset)

    # Find empty parts.
    for row in np.flatnonzero(scanned.part_size == 0).tolist():
        is_text = kind_of_name(scanned.part_names[int(scanned.part_name[row])]) == "text"
        yield at(row, SampleFaults.W308 if is_text else SampleFaults.E303, "the part is empty (0 bytes)")

    # Find parts that a sample has twice.
    by_name = np.lexsort((scanned.part_name, sample_of))
    same = (np.diff(sample_of[by_name]) == 0) & (np.diff(scanned.part_name[by_name].astype(np.int64)) == 0)
    for row in by_name[1:][same].tolist():
        yield at(row, SampleFaults.E306, "the sample has this part twice; readers disagree on which one wins")

    # Find samples with other parts between theirs.
    for sample in _scattered(scanned, sample_of):
        yield Finding(
            SampleFaults.W304,
            "other samples are between its parts, so reading it takes longer",
            shard=shard,
            key=keys[sample],
        )

    # Find samples without a part that their type needs.
    for field, alternatives in required_parts(scan.config).items():
        names = [name_index for name_index, name in enumerate(scanned.part_names) if name in alternatives]
        has = np.zeros(len(scanned), np.bool_)
        has[sample_of[np.isin(scanned.part_name, names)]] = True
        for sample in np.flatnonzero(~has).tolist():
            rows = slice(int(scanned.part_ends[sample] - counts[sample]), int(scanned.part_ends[sample]))
            parts = ", ".join(scanned.part_names[name] for name in scanned.part_name[rows].tolist())
            yield Finding(
                SampleFaults.E301,
                f"field {field!r} needs part {' or '.join(alternatives)}; the sample has {parts}",
                shard=shard,
                key=keys[sample],
                part=alternatives[0],
                offset=int(scanned.sample_offsets[sample]),
            )


def _scattered(scanned: ShardIndex, sample_of: npt.NDArray[np.int64]) -> list[int]:
    """Return the samples that have other parts between theirs; ``sample_of`` maps p parts to samples, shape (p,)."""
    if not scanned.scattered:
        return []
    # The rank of each part by its offset: neighbours of a sample have neighbouring ranks.
    rank = np.empty(len(sample_of), np.int64)
    rank[np.argsort(scanned.part_offset)] = np.arange(len(sample_of))
    gaps = (np.diff(sample_of) == 0) & (np.diff(rank) != 1)
    return [int(sample) for sample in np.unique(sample_of[1:][gaps])]


def required_parts(config: DatasetConfig | None) -> dict[str, list[str]]:
    """Return the required fields of samples, each with the alternative parts that fill it."""
    if config is None or config.field_map is None or config.spec is None:
        return {}
    optional = config.spec.optional
    return {
        name: list(dict.fromkeys(access.part for access in accesses))
        for name, accesses in config.field_map.fields.items()
        if name not in optional
    }


_MAX_DUPLICATES = 100  # findings


def _check_duplicate_keys(dataset: Dataset) -> Iterator[Finding]:
    # Name some of them, then the number of all.
    index = tar_index(dataset)
    total = index.layout.duplicate_keys
    if total:
        yield from islice(_duplicate_keys(index), _MAX_DUPLICATES)
    if total > _MAX_DUPLICATES:
        yield Finding(
            SampleFaults.W305,
            f"{plural(total, 'sample repeats', 'samples repeat')} a key: run energon prepare --fix-duplicates",
        )


def _check_part_names(dataset: Dataset) -> Iterator[Finding]:
    for message in once_warning(dataset.index.layout):
        yield Finding(SampleFaults.W309, message)


def _duplicate_keys(index: DatasetIndex) -> Iterator[Finding]:
    for first, *others in repeated_samples(index):
        message = f"sample {index.full_key(first)} has the same key: look-up by bare key finds both"
        for sample in others:
            yield Finding(SampleFaults.W305, message, shard=index.shard_of(sample).name, key=index.key(sample))


def _check_byte_order_marks(sample: ReadSample) -> Iterator[Finding]:
    for part, data in sample.parts.items():
        if isinstance(data, bytes) and data.startswith(BYTE_ORDER_MARK) and kind_of_name(part) in ("text", "tree"):
            message = "the text begins with a byte order mark, which is dropped when it is decoded"
            yield Finding(SampleFaults.W311, message, shard=sample.shard, key=sample.key, part=part)


class SampleFaults(LintRules):
    """The rules of samples."""

    title = "Samples"
    note = "`energon lint --fix` excludes the samples with these errors."
    kinds = TARS

    E301 = LintRule(
        "a required part is missing",
        why="The sample cannot be built. Training logs an error and skips it.",
        action="exclude the sample, or correct the field map",
        example="`000083.jpg` has no `000083.txt`, which the field `caption` needs.",
        kinds=DATASETS,
        of_shard=_check_parts,
        is_excludable=True,
    )
    E302 = LintRule(
        "a part does not decode",
        why="The sample fails to load. Training logs an error and skips it; 100 failures in a row stop the run. Sound "
        "and video that end too early may load: training then gets less than was recorded, without an error.",
        action="exclude the sample, or rewrite it",
        example="A download saved the error page of a web server as `000083.jpg`, which begins with `<!DOCTYPE html>`.",
        kinds=SHARDS,
        is_excludable=True,
    )
    E303 = LintRule(
        "a part is empty",
        why="An empty image, sound or JSON text does not decode, so that the sample fails to load.",
        action="exclude the sample, or rewrite it",
        example="The disk was full when the shard was written, and `000083.jpg` has 0 bytes.",
        of_shard=_check_parts,
        is_excludable=True,
    )
    W304 = LintRule(
        "the parts of a sample are not adjacent in the shard",
        why="Reading such a sample costs several requests. Other readers of the format split it into several samples.",
        action="none here; other readers of the format split it into several samples",
        example="`tar` sorted the files by extension: all `.jpg` members come before all `.txt` members.",
        of_shard=_check_parts,
    )
    W305 = LintRule(
        "a key occurs in two shards",
        why="A bare key does not identify a sample, so that joins, stores and `exclude` may name another one.",
        action="see [Fix a broken dataset](../how-to/fix-a-broken-dataset.md#several-shards-have-the-same-key)",
        example="Each shard numbers its samples from 000000.",
        of_dataset=_check_duplicate_keys,
    )
    E306 = LintRule(
        "a sample has two parts of the same name",
        why="Only one of the two parts is loaded, and readers disagree on which one.",
        action="exclude the sample",
        example="A job that was restarted appended `000083.jpg` a second time.",
        of_shard=_check_parts,
        is_excludable=True,
    )
    E307 = LintRule(
        "the sample cannot be built from its parts",
        why="The sample fails to load. Training logs an error and skips it.",
        action="correct the field map, or exclude the sample; the message has the reason",
        example="The field map reads `json[caption]`, and the json of this sample has no `caption`.",
        kinds=SHARDS,
        is_excludable=True,
    )
    W308 = LintRule(
        "a text is empty",
        why="The model learns that a picture may have no caption, or that a question has no answer.",
        action="none, if texts may be empty; otherwise check its origin",
        example="The service that writes captions timed out, and the job stored an empty text.",
        of_shard=_check_parts,
    )
    W309 = LintRule(
        "most part names occur once: base names contain dots",
        why="A key ends at the first dot, so that no field of a sample type has all of these files.",
        action="rename the files, or unpack the shards and run `energon import`, which replaces such dots",
        example="The files are named by time: `cam.2024-01-31.jpg` is the part `2024-01-31.jpg` of the sample `cam`.",
        of_dataset=_check_part_names,
    )
    W310 = LintRule(
        "a part is too large to be parsed, so it is not checked",
        why="A JSON part takes up to thirty times its size in memory, in each worker that decodes it. A command does "
        "not parse larger ones than its `--max-json-bytes`, nor what of a compressed part exceeds it.",
        action="store large values as parts of their own: arrays as `.npy`, texts as `.txt`; or raise "
        "`--max-json-bytes`",
        example="A job wrote the annotations of all pictures, 225 MB, into the `.json` of the first one.",
        kinds=("tar shards", "unprepared tar files", "folders of JSONL or Parquet files", "JSONL files"),
    )
    W311 = LintRule(
        "a text begins with a byte order mark",
        why="Nothing is lost here, but other tools give the model a character that no reader sees.",
        action="none here; write the texts without it if other tools read the shards",
        example="`000083.txt` was saved by an editor on Windows as UTF-8 with BOM.",
        of_sample=_check_byte_order_marks,
    )
    W312 = LintRule(
        "a part is whole, but no decoder here reads it",
        why="Training skips the sample, as one that is damaged, unless it has a decoder for such parts.",
        action="install the package that the message names, or write a decoder: "
        "[pictures that Pillow does not read](../how-to/decode-samples.md#pictures-that-pillow-does-not-read)",
        example="`scene.tif` has 13 bands of 16 bits; Pillow reads pictures of up to four.",
        kinds=SHARDS,
    )
