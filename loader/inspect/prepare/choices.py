"""Propose and check the choices of a prepare: the split, the sample type and its fields."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from ...errors import EnergonError, plural
from ...format.documents.dataset_config import format_dataset_config
from ...format.documents.field_map import parse_field_map
from ...format.documents.sample_types import SampleTypeSpec
from ...format.documents.subset import resolve_subset
from ...format.documents.value_name import PartNames
from ...format.nv_meta import FOLDER
from ...format.records.folder_index import RecordIndex
from ...prepare.contents.proposals import Proposal, dropped_parts
from ...prepare.contents.proposed_fields import propose_field_map
from ...prepare.contents.sample_layouts import find_layout
from ...prepare.dataset_yaml import SAMPLE_LOADER, DatasetYaml, dataset_config_of, sample_loader_text
from ...prepare.plan import SplitRequest
from ...prepare.split import ranges_by_ratio, split_by_ratio
from ...prepare.split_names import detect_split
from ..sample_view import SampleView, describe_sample, view_decoder
from .sampled_contents import SampledContents, ShardFolder, coverage, field_map_warnings

_RATIO = {"train": 8.0, "val": 1.0, "test": 1.0}
_MAX_NAMES = 10  # of parts, in a note
_NOTED_DEVIATION = 5  # percentage points of a share from the requested one
_MAX_DEVIATION = 10  # a larger one of whole shards is not proposed


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The choices of a prepare; None keeps what the dataset has."""

    split: SplitRequest | None = None
    dataset_yaml: DatasetYaml | None = None


@dataclass(frozen=True)
class OpenChoices:
    """The choices that are settled before a user is asked, and proposals for the others.

    Attributes:
        folder: The shards, and what their samples contain.
        samples: Shard → number of samples; None before the scan.
        split: The split, if it is settled.
        ask_split: False keeps the split of the dataset.
        by_samples: Apply a ratio to the samples of each shard (True) or to whole shards (False). None: to whole shards,
            unless they miss the ratio by more than 10 percentage points.
        spec: The sample type, if it is settled.
        field_map: The field map, if it is settled.
        ask_dataset_yaml: False keeps ``dataset.yaml``, or writes none.
    """

    folder: ShardFolder
    _: KW_ONLY
    samples: Mapping[str, int] | None = None
    split: SplitRequest | None = None
    ask_split: bool = True
    by_samples: bool | None = None
    spec: SampleTypeSpec | None = None
    field_map: Mapping[str, str] | None = None
    ask_dataset_yaml: bool = True

    @property
    def proposal(self) -> Proposal:
        """All sample types, the likeliest first, with the reason."""
        return self.folder.contents.proposal

    @property
    def fitting(self) -> frozenset[str]:
        """Names of the sample types that the samples can fill; the crude type is always one."""
        coded, seen = self.proposal.coded_type, self.folder.contents.seen
        types = self.proposal.sample_types
        return frozenset(s.name for s in types if s == coded or propose_field_map(s, seen).keys() >= {*s.required})

    @property
    def proposed_split(self) -> SplitRequest:
        """The split to propose: from the shards' names, or 8,1,1; a single shard is all train."""
        if detected := detect_split(list(self.folder.sizes)):
            return SplitRequest(parts=detected)
        is_single = len(self.folder.sizes) == 1 and self.by_samples is None
        return self.fitted(SplitRequest(ratio={"train": 1.0} if is_single else _RATIO))

    def fitted(self, request: SplitRequest) -> SplitRequest:
        """Return a split whose ratio is applied to samples where whole shards miss it, and samples meet it better."""
        # A choice of the user stays; otherwise samples are divided only where that comes nearer to the ratio.
        divided = replace(request, by_samples=True)
        if self.by_samples is not None:
            return divided if self.by_samples and request.ratio is not None else request
        if not misses_ratio(self.folder.sizes, request):
            return request
        is_better = not self.samples or _deviation(self.samples, divided) < _deviation(self.samples, request)
        return divided if is_better else request


def propose_choices(given: OpenChoices) -> Choices:
    """Settle every open choice by its proposal."""
    split = None if given.split is None else given.fitted(given.split)
    if split is None and given.ask_split:
        split = given.proposed_split
    if not given.ask_dataset_yaml:
        return Choices(split=split)
    spec = given.spec or given.proposal.sample_types[0]
    field_map = given.field_map
    if field_map is None and not spec.crude and spec != given.proposal.coded_type:
        proposed = propose_field_map(spec, given.folder.contents.seen)
        field_map = proposed if all(name in proposed for name in spec.required) else None
    return Choices(split=split, dataset_yaml=DatasetYaml(spec=spec, field_map=field_map))


def choice_files(folder: ShardFolder, choices: Choices, *, name: str) -> dict[str, str]:
    """Return the files to write to ``.nv-meta``, name → text; an existing ``sample_loader.py`` is kept.

    Args:
        folder: The folder.
        choices: Its choices.
        name: File name for ``dataset.yaml``.
    """
    chosen = choices.dataset_yaml
    if chosen is None:
        return {}
    contents = folder.contents
    files = {name: format_dataset_config(dataset_config_of(chosen))}
    has_code = chosen.field_map is None and not chosen.spec.crude
    if has_code and not folder.storage.exists(f"{FOLDER}/{SAMPLE_LOADER}"):
        proposals = propose_field_map(chosen.spec, contents.seen)
        template = sample_loader_text(chosen.spec, proposals, contents.part_names)
        files[SAMPLE_LOADER] = _generated_code(contents, chosen) or template
    return files


def _generated_code(contents: SampledContents, chosen: DatasetYaml) -> str | None:
    """Return the ``sample_loader.py`` that needs no editing; None if the user has to complete it."""
    layout = contents.proposal.layout
    if layout is None and not contents.holds_values:
        layout = find_layout(contents.part_names, contents.seen.example)
    return layout.code if layout is not None and layout.type_name == chosen.spec.name else None


def choice_notes(folder: ShardFolder, choices: Choices) -> list[str]:
    """Return notes on consequences of the choices that a user may not expect."""
    notes: list[str] = [*folder.contents.conflicts]
    chosen = choices.dataset_yaml
    if chosen is None and not folder.has_dataset_yaml:
        notes.append(
            "no dataset.yaml was requested, so samples stay crude, dicts of their parts, until there is one;"
            " --sample-type NAME --field-map JSON write it"
        )
    if chosen is not None and chosen.field_map is None and not chosen.spec.crude:
        notes.append(_code_note(folder, chosen))
    elif chosen is not None:
        notes.extend(_dropped_note(folder.contents, chosen))
    if choices.split is not None:
        notes.extend(_split_notes(folder, choices.split))
    existing = (
        ("the split", folder.has_split, choices.split),
        ("dataset.yaml", folder.has_dataset_yaml, choices.dataset_yaml),
    )
    kept = [name for name, exists, new in existing if exists and new is None]
    if kept:
        notes.append(f"kept as before: {' and '.join(kept)}")
    return notes


def _code_note(folder: ShardFolder, chosen: DatasetYaml) -> str:
    has_loader = folder.storage.exists(f"{FOLDER}/{SAMPLE_LOADER}")
    if has_loader or _generated_code(folder.contents, chosen) is None:
        return f"complete .nv-meta/{SAMPLE_LOADER}: it fills the fields of {chosen.spec.name}"
    return (
        f"{folder.contents.proposal.reason}. Look at .nv-meta/{SAMPLE_LOADER}, then at the samples:"
        " energon preview --trust-code"
    )


def _dropped_note(contents: SampledContents, chosen: DatasetYaml) -> Iterator[str]:
    """Yield what samples of this type do not have, or why they are of this type."""
    proposal = contents.proposal
    if chosen.spec == proposal.sample_types[0] and proposal.reason is not None:
        yield proposal.reason
    field_map = chosen.field_map or {}
    if contents.holds_values or chosen.spec.crude:
        return
    if contents.samples and not contents.are_first:
        yield from coverage(chosen, contents, required=False)
    sets = [each.parts for each in contents.part_sets.sets]
    dropped = dropped_parts(chosen.spec, field_map, contents.seen, sets)
    if dropped and proposal.layout is None:
        yield f"no field of {chosen.spec.name} holds {_counted(dropped, contents)}, so training does not read it"


def _counted(names: Sequence[str], contents: SampledContents) -> str:
    """Return part names, those that not all samples have with their number and the first of them."""
    counts = contents.part_counts
    pieces = [
        f"{name} (in {counts[name]:,}, first {contents.part_sets.first_with(name)})"
        if counts[name] < contents.samples
        else name
        for name in names[:_MAX_NAMES]
    ]
    more = len(names) - len(pieces)
    return ", ".join(pieces) + (f" and {more:,} more" if more > 0 else "")


def asked_shares(request: SplitRequest) -> dict[str, float]:
    """Return the percentage that a ratio asks for each split part; nothing without a ratio.

    >>> asked_shares(SplitRequest(ratio={"train": 3, "val": 1}))
    {'train': 75.0, 'val': 25.0}
    """
    ratio = request.ratio or {}
    return {name: 100 * share / sum(ratio.values()) for name, share in ratio.items()}


def misses_ratio(sizes: Mapping[str, int], request: SplitRequest, *, by: float = _MAX_DEVIATION) -> bool:
    """Return True if whole shards miss a ratio by more percentage points of their bytes, or leave a part empty.

    >>> misses_ratio({"a": 9, "b": 9, "c": 9}, SplitRequest(ratio={"train": 8, "val": 1, "test": 1}))
    True
    """
    if request.ratio is None or request.by_samples:
        return False
    return _deviation(sizes, request) > by


def _deviation(sizes: Mapping[str, int], request: SplitRequest) -> float:
    """Return the largest deviation of a share in percentage points; infinity if a part is empty that should not be."""
    exact, asked = _exact_shares(sizes, request), asked_shares(request)
    if any(asked[name] and not exact.get(name) for name in asked):
        return math.inf
    return max(abs(exact.get(name, 0) - asked[name]) for name in asked)


def _exact_shares(sizes: Mapping[str, int], request: SplitRequest) -> dict[str, float]:
    """Return the percentage of the bytes, or samples, of the shards in each part of a ratio."""
    ratio, total = request.ratio or {}, sum(sizes.values()) or 1
    if request.by_samples:
        ranges = ranges_by_ratio(ratio).items()
        counts = {
            name: sum(len(range(*resolve_subset((share,), size))) for size in sizes.values()) for name, share in ranges
        }
    else:
        parts = split_by_ratio(list(sizes), ratio, shuffle_seed=request.shuffle_seed).parts
        counts = {name: sum(map(sizes.__getitem__, shards)) for name, shards in parts.items()}
    return {name: 100 * count / total for name, count in counts.items()}


def _split_notes(folder: ShardFolder, request: SplitRequest) -> Iterator[str]:
    """Yield why samples are split and who cannot read that, or the real shares of whole shards that miss a ratio."""
    of_shards = replace(request, by_samples=False)
    if not request.by_samples:
        if misses_ratio(folder.sizes, request, by=_NOTED_DEVIATION):
            count, shares = len(folder.sizes), _shares_of_shards(folder, request)
            comes = f"{plural(count, 'shard')} {'comes' if count == 1 else 'come'} to {shares}"
            yield f"shards are never divided, so {comes}; --split-by samples divides them"
        return
    if misses_ratio(folder.sizes, of_shards):
        yield f"the samples of each shard are split: whole shards would come to {_shares_of_shards(folder, of_shards)}"
    yield "megatron-energon itself reads splits of whole shards only: --split-by shards keeps whole shards"


def _shares_of_shards(folder: ShardFolder, request: SplitRequest) -> str:
    asked, exact = asked_shares(request), _exact_shares(folder.sizes, request)
    return ", ".join(f"{name} {exact[name]:.1f} % ({share:.1f} % requested)" for name, share in asked.items())


def view_first_sample(folder: ShardFolder, choice: DatasetYaml, *, trust_code: bool = False) -> SampleView:
    """Build the first sample as chosen and describe it; ``fault`` holds why it cannot be built."""
    from ...samples.building.dataset_code import DatasetCode
    from ...samples.building.sample_builder import SampleBuilder
    from ...samples.decoding.media_values import decode_media

    first = folder.contents
    article = "an" if choice.spec.name[0] in "AEIO" else "a"
    title = f"as {article} {choice.spec.name}: {first.key}"
    try:
        config = dataset_config_of(choice)
        builder = SampleBuilder(
            config,
            DatasetCode(folder.storage.path(FOLDER), trust_code),
            decoder=None if first.holds_values else view_decoder(config),
        )
        parts = first.parts
        if first.holds_values and isinstance(first.index, RecordIndex):
            parts = decode_media(parts, first.index.media_of(0), view_decoder(config).decode_part)
        sample = builder.build(parts, key=first.key)  # a field map decodes only the parts it needs
        faults = field_map_warnings(choice, folder, trust_code=trust_code)
        return SampleView(title=title, fields=describe_sample(sample), fault="\n".join(faults) or None)
    except EnergonError as error:
        # The hint is omitted: it applies to a dataset.yaml that exists, not to a choice.
        return SampleView(title=title, fields=(), fault=error.message)


def resolved_fields(field_map: Mapping[str, str], contents: SampledContents) -> dict[str, str]:
    """Return a field map with the names that are printed: ``json[caption]`` for ``caption``."""
    parsed = parse_field_map(dict(field_map), file="the field map")
    names, values = PartNames(contents.part_names), contents.json_values
    return parsed.resolved(names, file="the field map", known=values).expressions()
