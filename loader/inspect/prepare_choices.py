"""Propose and check the choices of a prepare: the split, the sample type and its fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..accounting.kinds import kind_of_name
from ..errors import EnergonError
from ..format.contents.proposals import Proposal, dropped_parts, propose, propose_field_map
from ..format.contents.sample_layouts import find_layout
from ..format.documents.field_map import FieldMap, is_part_name, parse_field_expression, parse_field_map
from ..format.documents.messages import nearest_names
from ..format.documents.sample_types import CRUDE, SAMPLE_TYPES, FieldSpec, SampleTypeSpec
from ..format.prepare.dataset_yaml import SAMPLE_LOADER, DatasetYaml, dataset_config_of, files_to_write
from ..format.prepare.plan import SplitRequest
from ..format.prepare.split import plan_split
from ..format.prepare.split_plan import detect_split, parse_ratio
from .sample_view import SampleView, describe_sample, shown_decoder
from .sampled_contents import (
    SampledContents,
    ShardFolder,
    field_map_warnings,
    missing_sentence,
    part_names_of_fields,
)
from .text import plural

_RATIO_PROPOSALS = {1: "1", 2: "1,1"}  # by the number of shards; shards are never divided
_RATIO_PROPOSAL = "8,1,1"
_MAX_KEYS = 8  # of json, in a hint
_MAX_SHOWN = 30  # part names, in a hint
_MAX_SETS = 200  # that are compared with a type
_MAX_NAMES = 10  # of parts, in a note
_MAX_DEVIATION = 5  # percent, of a split's share from the requested one


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The choices of a prepare; None keeps what the dataset has."""

    split: SplitRequest | None = None
    dataset_yaml: DatasetYaml | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChoices:
    """The choices that are settled before a user is asked, and proposals for the others.

    Attributes:
        shards: Names of the shards.
        detected_split: Split that the names of the shards suggest.
        contents: What the samples contain.
        sample_types: All sample types, the likeliest first.
        reason: Why the first type is proposed; None if nothing needs to be explained.
        fits: Number of samples that have the parts of the first type; None if it is not known.
        coded_type: The sample type that generated code builds; None if the proposal needs no code.
        split: The split, if it is settled.
        ask_split: False keeps the split of the dataset.
        spec: The sample type, if it is settled.
        field_map: The field map, if it is settled.
        ask_dataset_yaml: False keeps ``dataset.yaml``, or writes none.
    """

    shards: Sequence[str]
    detected_split: Mapping[str, tuple[str, ...]] | None
    contents: SampledContents
    sample_types: Sequence[SampleTypeSpec]
    reason: str | None = None
    fits: int | None = None
    coded_type: SampleTypeSpec | None = None
    split: SplitRequest | None = None
    ask_split: bool = True
    spec: SampleTypeSpec | None = None
    field_map: Mapping[str, str] | None = None
    ask_dataset_yaml: bool = True

    @property
    def proposed_ratio(self) -> str:
        """The ratio to propose; with fewer shards than parts, it leaves no part empty."""
        return _RATIO_PROPOSALS.get(len(self.shards), _RATIO_PROPOSAL)


def open_choices(folder: ShardFolder, **settled: Any) -> OpenChoices:
    """Return the choices for a folder, with proposals from its shards and the scan of its samples.

    Args:
        folder: The folder.
        settled: Fields of :class:`OpenChoices` that are settled: ``split``, ``spec`` …
    """
    proposal = _proposal(folder.contents)
    likeliest = proposal.sample_types
    return OpenChoices(
        shards=list(folder.sizes),
        detected_split=detect_split(list(folder.sizes)),
        contents=folder.contents,
        sample_types=[*likeliest, *(spec for spec in SAMPLE_TYPES.values() if spec not in likeliest)],
        reason=proposal.reason,
        fits=proposal.fits,
        coded_type=likeliest[0] if proposal.layout is not None else None,
        **settled,
    )


def complete_choices(given: OpenChoices, folder: ShardFolder) -> OpenChoices:
    """Return choices with the proposals that come from the scan of a folder."""
    return open_choices(
        folder,
        split=given.split,
        ask_split=given.ask_split,
        spec=given.spec,
        field_map=given.field_map,
        ask_dataset_yaml=given.ask_dataset_yaml,
    )


def _proposal(found: SampledContents) -> Proposal:
    if found.holds_values:  # columns are not decoded, so their names do not tell their types
        return Proposal(sample_types=[CRUDE])
    return propose(
        found.part_names,
        found.json_example,
        kinds=found.kinds,
        sets=found.part_sets.sets,
        has_all=found.contents.has_all,
    )


def proposed_field_map(spec: SampleTypeSpec, found: SampledContents) -> dict[str, str]:
    """Return the proposed field-map expressions for the fields of a sample type."""
    return propose_field_map(spec, found.part_names, found.json_example, kinds=found.kinds, sets=found.part_sets.sets)


def propose_choices(given: OpenChoices) -> Choices:
    """Settle every open choice by its proposal."""
    split = given.split
    if split is None and given.ask_split:
        detected = given.detected_split
        split = SplitRequest(parts=detected) if detected else SplitRequest(ratio=parse_ratio(given.proposed_ratio))
    if not given.ask_dataset_yaml:
        return Choices(split=split)
    spec = given.spec or given.sample_types[0]
    field_map = given.field_map
    if field_map is None and not spec.crude and spec != given.coded_type:
        proposed = proposed_field_map(spec, given.contents)
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
    found = folder.contents
    files = files_to_write(
        chosen, name=name, proposals=proposed_field_map(chosen.spec, found), part_names=found.part_names
    )
    if SAMPLE_LOADER in files and (code := _generated_code(found, chosen)) is not None:
        files[SAMPLE_LOADER] = code
    if folder.has_file(SAMPLE_LOADER):
        files.pop(SAMPLE_LOADER, None)
    return files


def _generated_code(found: SampledContents, chosen: DatasetYaml) -> str | None:
    """Return the ``sample_loader.py`` that needs no editing; None if the user has to complete it."""
    layout = _proposal(found).layout
    if layout is None and not found.holds_values:
        layout = find_layout(found.part_names, found.json_example)
    return layout.code if layout is not None and layout.type_name == chosen.spec.name else None


def choice_notes(folder: ShardFolder, choices: Choices) -> list[str]:
    """Return notes on consequences of the choices that a user may not expect."""
    notes: list[str] = [*folder.contents.conflicts]
    chosen = choices.dataset_yaml
    if chosen is None and not folder.has_dataset_yaml:
        notes.append(
            "no dataset.yaml was requested, so samples stay crude until there is one;"
            " --sample-type NAME --field-map JSON write it"
        )
    if chosen is not None and chosen.field_map is None and not chosen.spec.crude:
        notes.append(_code_note(folder, chosen))
    elif chosen is not None:
        notes.extend(_dropped_note(folder.contents, chosen))
    if choices.split is not None and choices.split.by_samples:
        notes.append("other tools refuse a split by samples: split.yaml has the key sample_ranges")
    elif choices.split is not None and choices.split.ratio is not None:
        notes.extend(_real_shares(folder, choices.split, choices.split.ratio))
    existing = (
        ("the split", folder.has_split, choices.split),
        ("dataset.yaml", folder.has_dataset_yaml, choices.dataset_yaml),
    )
    kept = [name for name, exists, new in existing if exists and new is None]
    if kept:
        notes.append(f"kept as before: {' and '.join(kept)}")
    return notes


def _code_note(folder: ShardFolder, chosen: DatasetYaml) -> str:
    if folder.has_file(SAMPLE_LOADER) or _generated_code(folder.contents, chosen) is None:
        return f"complete .nv-meta/{SAMPLE_LOADER}: it fills the fields of {chosen.spec.name}"
    return (
        f"{_proposal(folder.contents).reason}. Look at .nv-meta/{SAMPLE_LOADER}, then at the samples:"
        " energon preview --trust-code"
    )


def _dropped_note(found: SampledContents, chosen: DatasetYaml) -> Iterator[str]:
    """Yield what samples of this type do not have, or why they are of this type."""
    proposal = _proposal(found)
    is_proposed = chosen.spec == proposal.sample_types[0]
    if is_proposed and proposal.reason is not None:
        yield proposal.reason
    field_map = chosen.field_map or {}
    if found.holds_values or chosen.spec.crude:
        return
    if is_proposed and not found.are_first and proposal.fits is not None and proposal.fits < found.samples:
        yield f"{chosen.spec.name} fits {proposal.fits:,} of {plural(found.samples, 'sample')}"
    if found.samples and not found.are_first:
        fields = part_names_of_fields(parse_field_map(dict(field_map), file="the field map"))
        for name, missing in found.missing(fields).items():
            if not chosen.spec.field(name).required and missing.samples < found.samples:
                yield missing_sentence(name, field_map[name], missing, found.samples)
    dropped = dropped_parts(chosen.spec, field_map, found.part_names, found.json_example, kinds=found.kinds)
    for each in found.part_sets.sets[:_MAX_SETS]:
        lost = dropped_parts(chosen.spec, field_map, each.parts, found.json_example, together=True, kinds=found.kinds)
        dropped += [name for name in lost if name not in dropped]
    if dropped and proposal.layout is None:
        yield f"no field of {chosen.spec.name} holds {_counted(dropped, found)}, so training does not read it"


def _counted(names: Sequence[str], found: SampledContents) -> str:
    """Return part names, those that not all samples have with their number and the first of them."""
    counts = found.part_counts
    pieces = [
        f"{name} (in {counts[name]:,}, first {found.part_sets.first_with(name)})"
        if counts[name] < found.samples
        else name
        for name in names[:_MAX_NAMES]
    ]
    more = len(names) - len(pieces)
    return ", ".join(pieces) + (f" and {more:,} more" if more > 0 else "")


def _real_shares(folder: ShardFolder, request: SplitRequest, ratio: Mapping[str, float]) -> list[str]:
    """Return a note with the real shares of a split if whole shards cannot approximate its ratio."""
    parts = plan_split(folder.storage, request, list(folder.sizes)).parts
    total = sum(ratio.values())
    wanted = {name: 100 * share / total for name, share in ratio.items()}
    real = {name: 100 * len(parts.get(name, ())) / len(folder.sizes) for name in ratio}
    if all(abs(real[name] - wanted[name]) <= _MAX_DEVIATION for name in ratio):
        return []
    count = len(folder.sizes)
    shares = ", ".join(f"{name} {real[name]:.0f} % ({wanted[name]:.0f} % requested)" for name in ratio)
    comes = "comes" if count == 1 else "come"
    found = f"shards are never divided, so {plural(count, 'shard')} {comes} to {shares}"
    return [f"{found}; --split-by samples divides them"]


def view_first_sample(folder: ShardFolder, choice: DatasetYaml, *, trust_code: bool = False) -> SampleView:
    """Build the first sample as chosen and describe it; ``fault`` holds why it cannot be built."""
    from ..samples.building.sample_builder import SampleBuilder

    first = folder.contents
    article = "an" if choice.spec.name[0] in "AEIO" else "a"
    title = f"as {article} {choice.spec.name}: {first.key}"
    try:
        builder = SampleBuilder(
            dataset_config_of(choice),
            meta_folder=folder.meta_folder,
            decoder=None if first.holds_values else shown_decoder(),
            trust_code=trust_code,
        )
        sample = builder.build(first.parts, key=first.key)  # a field map decodes only the parts it needs
        faults = field_map_warnings(choice, first, meta_folder=folder.meta_folder, trust_code=trust_code)
        return SampleView(title=title, fields=describe_sample(sample), fault="\n".join(faults) or None)
    except EnergonError as error:
        # The hint is omitted: it applies to a dataset.yaml that exists, not to a choice.
        return SampleView(title=title, fields=(), fault=error.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldQuestion:
    """A field to fill, and its proposed field-map expression, empty if there is none."""

    spec: SampleTypeSpec
    field: FieldSpec
    proposal: str
    part_names: Sequence[str]
    json_values: Sequence[str] = ()  # expressions of values inside json: json[meta][url]


def check_field(question: FieldQuestion, answer: str) -> str | None:
    """Return the fault of a field's expression; None if it is valid."""
    answer = answer.strip()
    if not answer:
        return f"{question.spec.name} requires {question.field.name!r}" if question.field.required else None
    try:
        accesses = parse_field_expression(answer)
    except ValueError as error:
        return str(error)
    name = question.field.name
    if question.part_names and FieldMap({name: accesses}).missing(question.part_names):
        wanted = accesses[0].part
        near = nearest_names(wanted, question.part_names, limit=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(question.part_names[:_MAX_SHOWN])}"
        return f"no sample has a part {wanted!r}; {hint}"
    return None


def field_hint(question: FieldQuestion) -> str:
    """Return a hint with parts and values inside json that a field may come from."""
    names = question.part_names
    hints = [f"parts: {', '.join(names[:_MAX_SHOWN])}{', …' if len(names) > _MAX_SHOWN else ''}"]
    values = question.json_values
    if values:
        part = values[0].partition("[")[0]
        hints.append(f"inside {part}: {', '.join(values[:_MAX_KEYS])}{', …' if len(values) > _MAX_KEYS else ''}")
    by_kind: dict[str, list[str]] = {}
    for name in question.part_names:
        by_kind.setdefault(kind_of_name(name), []).append(name)
    alike = next((names for names in by_kind.values() if len(names) > 1), None)
    if alike is not None:
        hints.append(f"whichever is there: {','.join(alike[:2])}")
    return "; ".join(hints)


def complete_field(question: FieldQuestion, text: str) -> list[str]:
    """Return the expressions that a text may be completed to; of several alternatives, the last one is completed.

    >>> spec = SAMPLE_TYPES["TextSample"]
    >>> question = FieldQuestion(
    ...     spec=spec, field=spec.fields[0], proposal="", part_names=["txt", "json"], json_values=["json[a]"]
    ... )
    >>> complete_field(question, "txt, j")
    ['txt, json', 'txt, json[a]']
    """
    start = text.rfind(",") + 1 if text.count("[") <= text.count("]") else text.rfind(",", 0, text.rfind("[")) + 1
    last = text[start:].lstrip()
    before = text[: len(text) - len(last)]
    parts = filter(is_part_name, question.part_names)
    return [before + found for found in (*parts, *question.json_values) if found.startswith(last)]
