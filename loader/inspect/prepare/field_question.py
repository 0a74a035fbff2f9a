"""Ask which part a field of samples is from: hints, checks and completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import ConfigError
from ...format.documents.field_map import FieldMap, parse_field_expression
from ...format.documents.messages import nearest_names
from ...format.documents.sample_types import FieldSpec, SampleTypeSpec
from ...format.documents.value_name import PartNames, is_part_name
from ...parts.kinds import kind_of_name

_MAX_KEYS = 8  # of json, in a hint
_MAX_SHOWN = 30  # part names, in a hint


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
        given = FieldMap({question.field.name: accesses})
        field_map = given.resolved(PartNames(question.part_names), file="the field map", known=question.json_values)
    except ValueError as error:
        return str(error)
    except ConfigError as error:
        return error.faults[0].message
    if question.part_names and field_map.missing(question.part_names):
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
    by_kind.pop("bytes", None)  # unknown ones, as all columns of a table are
    alike = next((names for names in by_kind.values() if len(names) > 1), None)
    if alike is not None:
        hints.append(f"whichever is there: {','.join(alike[:2])}")
    return "; ".join(hints)


def complete_field(question: FieldQuestion, text: str) -> list[str]:
    """Return the expressions that a text may be completed to; of several alternatives, the last one is completed.

    >>> from loader.format.documents import sample_type_of_name
    >>> spec = sample_type_of_name("TextSample")
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
    return [before + completion for completion in (*parts, *question.json_values) if completion.startswith(last)]
