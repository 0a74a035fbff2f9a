"""Describe what a scan of a folder of shards has found in its samples, and check a field map against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ...cached_property import cached_property
from ...errors import plural
from ...format.dataset_ref import DatasetRef
from ...format.documents.dataset_config import DatasetConfig
from ...format.documents.dataset_files import current_split_file, is_prepared
from ...format.documents.field_map import FieldMap, parse_field_map
from ...format.documents.messages import nearest_names
from ...format.index.layout import AbstractIndex, once_warning
from ...format.index.object_commit import read_committed_documents
from ...format.nv_meta import FOLDER
from ...format.records.folder_index import RecordIndex
from ...parts.kinds import PICKLE, TORCH, part_extension
from ...parts.part_sets import Missing, PartSets
from ...prepare.contents.findings import Contents
from ...prepare.contents.proposals import Proposal, propose
from ...prepare.contents.proposed_fields import SeenParts, propose_field_map
from ...prepare.dataset_yaml import DatasetYaml
from ...prepare.plan import PreparePlan, RunningPrepare
from ...prepare.run import open_prepare
from ...prepare.shards import ShardSearch, find_shards
from ...storage import Storage, list_once, pin_present_commit

_NO_PART_SETS = PartSets(sets=(), samples=0)  # before a scan
_MAX_PART_BYTES = 256 * 1024 * 1024  # of each part of the first sample
_MAX_OTHER_BYTES = 16 * 1024 * 1024  # of each part of the examples of other part sets
_MAX_EXAMPLES = 4  # part sets: a sample of each is read
_MAX_CONFLICTS = 20  # sentences
_MEDIA_FIELDS = ("images", "videos", "audios")  # of a conversation
_MEDIA_FAULTS = tuple(f"field {name!r}" for name in _MEDIA_FIELDS)
_SHOWN_NAMES = 20  # parts in a warning
_MAX_NAMES = 1000  # of parts, the most frequent: base names with dots may give each sample another one


@dataclass(frozen=True, kw_only=True)
class SampledContents:
    """The part sets of all samples of a folder, and the contents of some of them.

    Attributes:
        part_sets: The table of part sets, exact over all samples.
        key: Key of the first sample with the most frequent part set, ``<shard>/<key>``.
        is_first: That is the first sample of all.
        parts: Its parts, name → bytes; of a row of a Parquet file, column → value.
        examples: Keys and parts of samples with other part sets.
        holds_values: The parts are columns of Parquet files: only media are decoded.
        are_first: These are only the first samples of a source, not all of them.
        warnings: Sentences about part names that are probably not intended.
        other_parts: Names of the parts of samples that are not here.
    """

    part_sets: PartSets = _NO_PART_SETS
    contents: Contents = field(default_factory=Contents)
    key: str = ""
    is_first: bool = True
    parts: Mapping[str, Any] = field(default_factory=dict)
    examples: Sequence[tuple[str, Mapping[str, Any]]] = ()
    holds_values: bool = False
    are_first: bool = False
    warnings: Sequence[str] = ()
    other_parts: Sequence[str] = ()
    index: AbstractIndex | None = None

    @property
    def samples(self) -> int:
        """Number of all samples."""
        return self.part_sets.samples

    @property
    def part_counts(self) -> dict[str, int]:
        """Part name → number of samples that have it, the most frequent first, then in the order of the index."""
        counts = Counter[str]() if self.index is None else Counter(dict.fromkeys(self.index.part_names, 0))
        for each in self.part_sets.sets:
            counts.update(dict.fromkeys(each.parts, each.samples))
        return {name: samples for name, samples in counts.most_common() if samples}

    @property
    def part_names(self) -> list[str]:
        """Part names, the most frequent first."""
        return list(dict.fromkeys([*self.part_counts, *self.other_parts]))[:_MAX_NAMES]

    @property
    def json_values(self) -> Sequence[str]:
        """Expressions of the values inside the json parts that were inspected: ``json[meta][url]``."""
        return self.contents.json_values()

    @cached_property
    def seen(self) -> SeenParts:
        """The parts, as proposals of sample types take them."""
        if self.holds_values and isinstance(self.index, RecordIndex) and self.samples:
            from .table_columns import columns_seen  # imports pyarrow

            return columns_seen(self.index.schema)
        return SeenParts(
            self.part_names,
            self.contents.json_example(),
            kinds=self.contents.part_kinds(),
            sets=self.part_sets.sets,
            texts=self.contents.texts,
            count_with=self.contents.count_with,
        )

    @cached_property
    def proposal(self) -> Proposal:
        """The sample types, the likeliest first."""
        return propose(self.seen)

    @property
    def conflicts(self) -> list[str]:
        """Sentences about parts and keys inside json that are not the same in all inspected samples."""
        return [] if self.are_first else list(islice(self.contents.conflicts(), _MAX_CONFLICTS))

    def missing(self, field_map: FieldMap) -> dict[str, Missing]:
        """Return the fields that some samples cannot fill, exactly; one of the parts of a field is enough."""
        fields = {name: [access.part for access in accesses] for name, accesses in field_map.fields.items()}
        # The table has the most frequent sets only: if there are others, the index is counted.
        if self.part_sets.others and self.index is not None:
            return self.index.missing(fields)
        return self.part_sets.coverage(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFolder:
    """A folder of shards before it is prepared.

    Attributes:
        storage: The folder.
        search: Its shards.
        has_split: The folder has a split from an earlier prepare.
        has_dataset_yaml: The folder has a ``dataset.yaml`` from an earlier prepare.
        prepared: The folder was prepared before.
        contents: What its samples contain; empty before a scan.
    """

    storage: Storage
    search: ShardSearch
    has_split: bool
    has_dataset_yaml: bool
    prepared: bool
    contents: SampledContents = field(default_factory=SampledContents)

    @property
    def sizes(self) -> Mapping[str, int]:
        """Shard → bytes, in the order of the dataset."""
        return {shard.name: shard.size_bytes for shard in self.search.shards}


def inspect_folder(
    ref: DatasetRef | str, *, exclude: str | None = None, scans: bool = True, other_parts: Sequence[str] = ()
) -> ShardFolder:
    """Find the shards of a folder, check for files of an earlier prepare, and scan its samples.

    Args:
        ref: The folder.
        exclude: Regular expression of shards to exclude.
        scans: Scan all samples in this process, and inspect some of them; nothing is written.
        other_parts: Names of the parts of samples that come after the ones in the folder.

    Raises:
        FormatError: Shards are damaged, or hold no samples.
        StorageError: The folder does not exist or has no shards.
    """
    ref = DatasetRef.of(ref)
    pin_present_commit(ref.path)
    storage = ref.storage()
    list_once(storage, "")
    read_committed_documents(storage)
    search = find_shards(storage, exclude=exclude)
    contents = SampledContents()
    # Scan all samples, as a prepare does, but write nothing.
    if scans:
        plan = PreparePlan.of(ref, exclude=exclude)
        with open_prepare(plan, storage=storage, search=search, inspects=True, is_trial=True) as prepare:
            prepare.scan()
            contents = replace(contents_of_scan(prepare), other_parts=other_parts)
    # Documents count only if an index belongs to them.
    prepared = is_prepared(storage)
    return ShardFolder(
        storage=storage,
        search=search,
        has_split=prepared and current_split_file(storage) is not None,
        has_dataset_yaml=prepared and storage.exists(f"{FOLDER}/{ref.dataset_file}"),
        prepared=prepared,
        contents=contents,
    )


def contents_of_scan(prepare: RunningPrepare) -> SampledContents:
    """Return what a prepare has found after its scan; an example of the most frequent part sets is read."""
    index = prepare.index
    table = index.part_sets
    examples = [
        (each.example, prepare.read_parts(each.first_sample, max_bytes=_MAX_OTHER_BYTES if rank else _MAX_PART_BYTES))
        for rank, each in enumerate(table.sets[:_MAX_EXAMPLES])
    ]
    return SampledContents(
        part_sets=table,
        contents=prepare.contents,
        key=examples[0][0],
        is_first=table.sets[0].first_sample == 0,
        parts=examples[0][1],
        examples=examples[1:],
        holds_values=not prepare.decodes,
        warnings=once_warning(index.layout),
        index=index,
    )


def field_map_warnings(choice: DatasetYaml, folder: ShardFolder, *, trust_code: bool = False) -> list[str]:
    """Return a warning for each field that no sample can fill, or that a sample cannot fill though it has the part.

    Values are checked in one sample of each of the most frequent part sets.

    Args:
        choice: Sample type and field map.
        folder: The folder, and what its samples contain.
        trust_code: Load pickles.
    """
    # Find the fields that no sample can fill.
    contents = folder.contents
    if choice.field_map is None or not contents.samples:
        return []
    field_map = parse_field_map(dict(choice.field_map), file="the field map")
    proposals = propose_field_map(choice.spec, contents.seen)
    missing = contents.missing(field_map)
    faulty = {
        name: _missing_parts(field_map, name, contents, proposals)
        for name, each in missing.items()
        if each.samples == contents.samples
    }
    # Fill the others from one sample of each part set.
    expressions, values = field_map.expressions(), set(contents.json_values)
    for example_index, (key, parts) in enumerate([(contents.key, contents.parts), *contents.examples]):
        testable = {
            name: accesses
            for name, accesses in field_map.fields.items()
            if name not in faulty and any(access.part in parts for access in accesses)
        }
        for name, fault in _faults(choice, FieldMap(testable), folder, key, parts, trust_code=trust_code):
            if "is missing" in fault and set(expressions[name].split(",")) & values:
                continue  # other samples have the value: coverage_warnings counts those without it
            proposal = proposals.get(name)
            has_hint = "did you mean" in fault or proposal in (None, expressions[name])
            where = f"in the first sample, {key}" if contents.is_first and not example_index else f"in sample {key}"
            faulty[name] = f"{where}, {fault}{'' if has_hint else f'; did you mean {proposal!r}?'}"
    return list(faulty.values())


def coverage_warnings(choice: DatasetYaml, contents: SampledContents) -> list[str]:
    """Return a sentence for each required field that some samples cannot fill, with their number and the first one.

    Parts are counted over all samples, and keys inside json over the samples that were inspected.
    """
    if choice.field_map is None or contents.are_first:
        return []
    field_map = parse_field_map(dict(choice.field_map), file="the field map")
    warnings = [*coverage(choice, contents, required=True)]
    for name, accesses in field_map.fields.items():
        # An alternative may fill the field, and an optional field need not be filled.
        if len(accesses) > 1 or not accesses[0].path or not choice.spec.field(name).required:
            continue
        value = accesses[0].expression
        if share := contents.contents.missing(accesses[0].part, value):
            warnings.append(f"field {name!r} ({value}) {share}")
    return warnings


def coverage(choice: DatasetYaml, contents: SampledContents, *, required: bool) -> Iterator[str]:
    """Yield a sentence for each required field, or each optional one, that some samples have no part for."""
    field_map = parse_field_map(dict(choice.field_map or {}), file="the field map")
    for name, missing in contents.missing(field_map).items():
        if choice.spec.field(name).required == required and missing.samples < contents.samples:
            count = f"{missing.samples:,} of {plural(contents.samples, 'sample')}"
            expression = field_map.expressions()[name]
            yield f"field {name!r} ({expression}) is missing in {count}, first {missing.example}"


def _missing_parts(field_map: FieldMap, name: str, contents: SampledContents, proposals: Mapping[str, str]) -> str:
    expression = field_map.expressions()[name]
    names = contents.part_names
    shown = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
    which = "first " if contents.are_first else ""
    samples = plural(contents.samples, "sample has", "samples have")
    seen = f"the {which}{samples}" if contents.samples > 1 else "the only sample has"
    # A similar name is more likely meant than a proposal by the contents.
    near = nearest_names(field_map.fields[name][0].part, names, limit=1)
    meant = near[0] if near else proposals.get(name)
    hint = f"; did you mean {meant!r}?" if meant else ""
    return f"field {name!r} comes from {expression!r}, but {seen} only {shown}{hint}"


def _faults(
    choice: DatasetYaml,
    testable: FieldMap,
    folder: ShardFolder,
    key: str,
    parts: Mapping[str, Any],
    *,
    trust_code: bool,
) -> Iterator[tuple[str, str]]:
    """Yield the fields that a sample cannot fill; each is checked separately, to report all of them."""
    from ...samples.building.check import DecodeCheck
    from ...samples.building.dataset_code import DatasetCode

    for name, expression in testable.expressions().items():
        # Check the field alone, and turns with the media whose places they have.
        names = (name, *_MEDIA_FIELDS) if name == "turns" else (name,)
        field_map = FieldMap({each: testable.fields[each] for each in names if each in testable.fields})
        config = DatasetConfig(sample_type=choice.spec.name, field_map=field_map)
        needed = {part: data for part, data in parts.items() if part in field_map.part_names()}
        unread = (frozenset() if trust_code else PICKLE) | (frozenset() if field_map.looks_inside(TORCH) else TORCH)
        if any(part_extension(part) in unread for part in needed):
            continue  # pickles may run code, and importing torch takes longer than all the rest
        # Report each fault once.
        check = DecodeCheck(config, DatasetCode(folder.storage.path(FOLDER), trust_code))
        faults = check.check_values(key, needed) if folder.contents.holds_values else check(key, needed)
        for part, fault in faults:
            if name == "turns" and fault.startswith(_MEDIA_FAULTS):
                continue  # reported with the media
            if choice.spec.field(name).required or part is not None or "is missing" not in fault:
                yield name, fault if fault.startswith("field ") else f"field {name!r} ({expression}): {fault}"
