"""The questions of ``energon prepare``, in their order. How they are put is up to a :class:`Questions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from loader.format.documents.field_map import FieldAccess, FieldMap, parse_field_expression
from loader.format.documents.messages import nearest_names
from loader.format.documents.part_kinds import part_extension, part_kind
from loader.format.documents.sample_types import SAMPLE_TYPES, FieldSpec, SampleTypeSpec
from loader.format.prepare.plan import SplitRequest
from loader.format.prepare.proposals import propose_field_map
from loader.format.prepare.split_plan import parse_ratio

from .choices import Choices, DatasetYaml

__all__ = [
    "FieldQuestion",
    "Given",
    "Questions",
    "ask",
    "check_field",
    "field_hint",
    "propose_everything",
    "sample_type_by_number",
]

_RATIO_PROPOSALS = {1: "1", 2: "1,1"}  # by the number of shards; shards are never divided
_RATIO_PROPOSAL = "8,1,1"
_SHOWN_KEYS = 6  # of json, in a hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What is known before anything is asked.

    Args:
        shards: Names of the shards.
        detected_split: A split that the shards' names suggest.
        part_names: Part names seen.
        json_example: The first sample's ``json`` part.
        sample_types: All sample types, the likeliest first.
        split: Settled by flags.
        ask_split: False keeps the split the dataset has.
        spec: The sample type, settled by a flag.
        field_map: Settled by a flag.
        ask_dataset_yaml: False leaves ``dataset.yaml`` as it is, or out.
    """

    shards: Sequence[str]
    detected_split: Mapping[str, tuple[str, ...]] | None
    part_names: Sequence[str]
    json_example: Mapping[str, Any] | None
    sample_types: Sequence[SampleTypeSpec]
    split: SplitRequest | None = None
    ask_split: bool = True
    spec: SampleTypeSpec | None = None
    field_map: Mapping[str, str] | None = None
    ask_dataset_yaml: bool = True

    @property
    def proposed_ratio(self) -> str:
        """The ratio to propose: with fewer shards than parts, no part is left empty."""
        return _RATIO_PROPOSALS.get(len(self.shards), _RATIO_PROPOSAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldQuestion:
    """One field to fill: the proposal is empty where nothing suggests itself."""

    spec: SampleTypeSpec
    field: FieldSpec
    proposal: str
    part_names: Sequence[str]
    json_example: Mapping[str, Any] | None = None


class Questions(Protocol):
    """Puts questions to a user, as menus or as lines."""

    def split(self, detected: Mapping[str, tuple[str, ...]] | None) -> SplitRequest:
        """Ask how the shards are split."""

    def sample_type(self, likeliest_first: Sequence[SampleTypeSpec]) -> SampleTypeSpec | None:
        """Ask for the sample type; None: write no ``dataset.yaml``."""

    def use_field_map(self, spec: SampleTypeSpec) -> bool:
        """Ask whether fields come straight from parts; else a ``sample_loader.py`` is written."""

    def field(self, question: FieldQuestion) -> str:
        """Ask where a field comes from; empty skips an optional one."""

    def accept_field_map(self, spec: SampleTypeSpec, field_map: Mapping[str, str]) -> bool:
        """Show a sample made by this map, or why it cannot be; False asks for the fields again."""


def ask(questions: Questions, given: Given) -> Choices:
    """Ask what is not settled yet, in the order that scripts rely on.

    The order: the split; whether there is to be a ``dataset.yaml``, and of which type; whether a field map will do;
    one question for each field.
    """
    split = given.split
    if split is None and given.ask_split:
        split = questions.split(given.detected_split)
    if not given.ask_dataset_yaml:
        return Choices(split=split)
    spec = given.spec or questions.sample_type(given.sample_types)
    if spec is None:
        return Choices(split=split)
    if spec.crude:
        return Choices(split=split, dataset_yaml=DatasetYaml(spec=spec))
    if given.field_map is not None:
        return Choices(split=split, dataset_yaml=DatasetYaml(spec=spec, field_map=given.field_map))
    if not questions.use_field_map(spec):
        return Choices(split=split, dataset_yaml=DatasetYaml(spec=spec))
    return Choices(split=split, dataset_yaml=DatasetYaml(spec=spec, field_map=_ask_fields(questions, given, spec)))


def _ask_fields(questions: Questions, given: Given, spec: SampleTypeSpec) -> dict[str, str]:
    proposals = propose_field_map(spec, given.part_names, given.json_example)
    while True:
        answers: dict[str, str] = {}
        for field in spec.fields:
            question = FieldQuestion(
                spec=spec,
                field=field,
                proposal=proposals.get(field.name, ""),
                part_names=given.part_names,
                json_example=given.json_example,
            )
            answer = questions.field(question).strip()
            if answer:
                answers[field.name] = answer
        if questions.accept_field_map(spec, answers):
            return answers
        proposals = answers


def propose_everything(given: Given) -> Choices:
    """Answer every question with its proposal (``--yes``)."""
    split = given.split
    if split is None and given.ask_split:
        detected = given.detected_split
        split = SplitRequest(parts=detected) if detected else SplitRequest(ratio=parse_ratio(given.proposed_ratio))
    if not given.ask_dataset_yaml:
        return Choices(split=split)
    spec = given.spec or given.sample_types[0]
    field_map = given.field_map
    if field_map is None and not spec.crude:
        proposed = propose_field_map(spec, given.part_names, given.json_example)
        field_map = proposed if all(name in proposed for name in spec.required) else None
    return Choices(split=split, dataset_yaml=DatasetYaml(spec=spec, field_map=field_map))


def check_field(question: FieldQuestion, answer: str) -> str | None:
    """Say what is wrong with the answer to a field's question; None: nothing."""
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
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(question.part_names)}"
        return f"no sample looked at has a part {wanted!r}; {hint}"
    return None


def field_hint(question: FieldQuestion) -> str:
    """Say what a field may come from, in words of the data at hand."""
    hints = [f"parts: {', '.join(question.part_names)}"]
    tree = next((name for name in question.part_names if part_extension(name) == "json"), None)
    if tree is not None and question.json_example:
        keys = [str(FieldAccess(tree, (key,))) for key in question.json_example]
        hints.append(f"inside {tree}: {', '.join(keys[:_SHOWN_KEYS])}{', …' if len(keys) > _SHOWN_KEYS else ''}")
    by_kind: dict[str, list[str]] = {}
    for name in question.part_names:
        by_kind.setdefault(part_kind(name), []).append(name)
    alike = next((names for names in by_kind.values() if len(names) > 1), None)
    if alike is not None:
        hints.append(f"whichever is there: {','.join(alike[:2])}")
    return "; ".join(hints)


def sample_type_by_number(number: int) -> SampleTypeSpec | None:
    """Give the sample type of that place in the alphabetical list, from 0; None if there is none."""
    names = sorted(SAMPLE_TYPES)
    return SAMPLE_TYPES[names[number]] if 0 <= number < len(names) else None
