"""The sequence of questions of commands that make datasets, and their answers from standard input."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from loader.errors import ConfigError, EnergonError
from loader.format.documents import SAMPLE_TYPE_OF_NUMBER, SampleTypeSpec, sample_type_of_name
from loader.inspect import (
    Choices,
    FieldQuestion,
    OpenChoices,
    check_field,
    field_hint,
    resolved_fields,
)
from loader.prepare import DatasetYaml, SplitRequest, format_ratio, parse_ratio
from loader.prepare.contents import only_field_map, propose_field_map

if TYPE_CHECKING:
    from .menus import MenuQuestions

_YES = frozenset(("y", "yes", "true", "ok"))
_NO = frozenset(("n", "no", "false"))


def ask(
    questions: PipedQuestions | MenuQuestions,
    given: OpenChoices,
    scanned: Callable[[OpenChoices], OpenChoices] = lambda given: given,
) -> Choices:
    """Prompt for all choices that flags leave open, in an order that scripts rely on.

    The order: the split; the sample type, or none for no ``dataset.yaml``; field map or code; each field.

    Args:
        questions: Prompts for the answers.
        given: The choices that are settled.
        scanned: Waits for the scan of the samples, and adds the proposals that come from it. It is not called before
            the split is settled.
    """
    split = given.split
    if split is None and given.ask_split:
        split = questions.split(given.proposed_split)
    if not given.ask_dataset_yaml:
        return Choices(split=split)
    given = scanned(given)
    spec = given.spec or questions.sample_type(given)
    if spec is None:
        return Choices(split=split)
    field_map = given.field_map
    if field_map is None and not spec.crude:
        field_map = None if questions.asks_all else only_field_map(spec, given.folder.contents.seen)
        if field_map is None or not questions.accept_field_map(spec, field_map):
            uses_map = questions.use_field_map(spec, proposes_code=spec == given.proposal.coded_type)
            field_map = _ask_fields(questions, given, spec) if uses_map else None
    return Choices(split=split, dataset_yaml=DatasetYaml(spec=spec, field_map=field_map))


def _ask_fields(questions: PipedQuestions | MenuQuestions, given: OpenChoices, spec: SampleTypeSpec) -> dict[str, str]:
    contents = given.folder.contents
    proposals: Mapping[str, str] = propose_field_map(spec, contents.seen)
    while True:
        # Prompt for each field; an empty answer leaves an optional field out.
        answers: dict[str, str] = {}
        for field in spec.fields:
            question = FieldQuestion(
                spec=spec,
                field=field,
                proposal=proposals.get(field.name, ""),
                part_names=contents.part_names,
                json_values=contents.json_values,
            )
            answer = questions.field(question).strip()
            if answer:
                answers[field.name] = answer
        # Show a sample with these fields; refused answers become the proposals of the next round.
        answers = resolved_fields(answers, contents)
        if questions.accept_field_map(spec, answers):
            return answers
        proposals = answers


class PipedQuestions:
    """Prompts that read one line per answer; an invalid answer raises, since a script cannot correct it."""

    asks_all = True
    """Also prompt where only one answer is possible: scripts rely on the order of all prompts."""

    def __init__(self, *, show: Callable[[str], None]) -> None:
        self._answers = sys.stdin or io.StringIO()
        self._show = show
        self._asked = 0

    def split(self, proposed: SplitRequest) -> SplitRequest:
        proposal = format_ratio(proposed.ratio or {}) + (" of the samples in each shard" if proposed.by_samples else "")
        if proposed.parts:
            proposal = f"by shard names: {', '.join(proposed.parts)}"
        answer = self._ask(f"Ratio of train, val and test, such as 8,1,1 (empty: {proposal})")
        if not answer:
            return proposed
        try:
            return SplitRequest(ratio=parse_ratio(answer))
        except ConfigError as error:
            raise ConfigError(error.message, at=f"answer {self._asked} on standard input", hint=error.hint) from error

    def sample_type(self, given: OpenChoices) -> SampleTypeSpec | None:
        """Prompt for the sample type; None means no ``dataset.yaml``."""
        answer = self._ask("Create a dataset.yaml? (yes, no, or a sample type)") or "yes"
        is_yes = yes_or_no(answer)
        if is_yes is False:
            return None
        if is_yes is None:
            return self._sample_type(answer, also="yes, no")
        for choice, spec in SAMPLE_TYPE_OF_NUMBER.items():
            self._show(f"  {choice:>2}  {spec.written_name}")
        likeliest = given.proposal.sample_types[0]
        answer = self._ask(f"Sample type, by name or number (empty: {likeliest.written_name})")
        return self._sample_type(answer) if answer else likeliest

    def use_field_map(self, spec: SampleTypeSpec, *, proposes_code: bool = False) -> bool:
        """Prompt for the use of a field map; False, proposed with ``proposes_code``, means a ``sample_loader.py``."""
        empty = "no" if proposes_code else "yes"
        question = f"Map parts to the fields of {spec.name} (a field map)? (yes, no)"
        answer = self._ask(f"{question} (empty: no, generate code)" if proposes_code else question) or empty
        is_yes = yes_or_no(answer)
        if is_yes is None:
            raise self._wrong(answer, "expected yes or no")
        return is_yes

    def field(self, question: FieldQuestion) -> str:
        """Prompt for the source of a field; an empty answer skips an optional field."""
        field = question.field
        empty = "" if field.required else " (empty: skip)"
        answer = self._ask(f"Part for {field.name!r}{empty}; {field_hint(question)}")
        fault = check_field(question, answer)
        if fault is not None and not fault.startswith("no sample has"):  # a warning follows
            raise self._wrong(answer, fault)
        return answer

    def accept_field_map(self, spec: SampleTypeSpec, field_map: Mapping[str, str]) -> bool:  # noqa: ARG002 - as of menus
        """Show a sample built with this map, or the error; False prompts for the fields again."""
        return True

    def _sample_type(self, answer: str, *, also: str = "") -> SampleTypeSpec:
        if answer.isdecimal():
            spec = SAMPLE_TYPE_OF_NUMBER.get(int(answer)) if len(answer) < 4 else None
            if spec is None:
                raise self._wrong(answer, f"expected one of the numbers shown, up to {max(SAMPLE_TYPE_OF_NUMBER)}")
            return spec
        try:
            return sample_type_of_name(answer)
        except ConfigError as error:
            raise self._wrong(
                answer, (f"expected {also} or a sample type; " if also else "") + error.message
            ) from error

    def _ask(self, question: str) -> str:
        self._show(question)
        self._asked += 1
        line = self._answers.readline()
        if not line:
            raise ConfigError(
                f"expected answer {self._asked}, found the end of the input: {question}",
                at="standard input",
                hint="pipe one line per prompt, or use flags (--yes, or --non-interactive --split-ratio …)",
            )
        answer = line.strip()
        self._show(f"> {answer}")
        return answer

    def _wrong(self, answer: str, why: str) -> EnergonError:
        return ConfigError(f"invalid answer {answer!r}: {why}", at=f"answer {self._asked} on standard input")


def yes_or_no(text: str) -> bool | None:
    """Parse an answer to a yes/no prompt; return None if it is neither.

    >>> yes_or_no("Yes"), yes_or_no("n"), yes_or_no("CaptioningWebdataset")
    (True, False, None)
    """
    word = text.strip().lower()
    if word in _YES:
        return True
    return False if word in _NO else None
