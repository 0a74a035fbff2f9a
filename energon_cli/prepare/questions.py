"""The questions of ``energon prepare``, in their order, and their answers from standard input."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TextIO

from loader.errors import ConfigError, EnergonError
from loader.format.documents import SAMPLE_TYPES, SampleTypeSpec, sample_type_of_name
from loader.format.prepare import DatasetYaml, SplitRequest, parse_ratio, propose_field_map
from loader.inspect import Choices, FieldQuestion, OpenChoices, check_field, field_hint

__all__ = ["PipedQuestions", "Questions", "ask", "yes_or_no"]

_YES = frozenset(("y", "yes", "true", "ok"))
_NO = frozenset(("n", "no", "false"))


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


def ask(questions: Questions, given: OpenChoices) -> Choices:
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


def _ask_fields(questions: Questions, given: OpenChoices, spec: SampleTypeSpec) -> dict[str, str]:
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


class PipedQuestions:
    """Reads one line an answer; an answer that cannot be understood ends the run, since nobody is there to ask again.

    Args:
        proposed_ratio: What an empty answer to the first question means, where names suggest no split.
        show: Prints a question.
        answers: Where the lines come from.
    """

    def __init__(
        self,
        proposed_ratio: str,
        *,
        show: Callable[[str], None],
        answers: TextIO | None = None,
    ) -> None:
        self._answers = answers or sys.stdin or io.StringIO()
        self._show = show
        self._proposed_ratio = proposed_ratio
        self._asked = 0

    def split(self, detected: Mapping[str, tuple[str, ...]] | None) -> SplitRequest:
        proposal = f"as the names say: {', '.join(detected)}" if detected else self._proposed_ratio
        answer = self._ask(f"Ratio of train, val and test, such as 8,1,1 (empty: {proposal})")
        if not answer:
            return SplitRequest(parts=detected) if detected else SplitRequest(ratio=parse_ratio(self._proposed_ratio))
        return SplitRequest(ratio=self._understand(lambda: parse_ratio(answer)))

    def sample_type(self, likeliest_first: Sequence[SampleTypeSpec]) -> SampleTypeSpec | None:
        answer = self._ask("Create a dataset.yaml? (yes, no, or a sample type)") or "yes"
        agreed = yes_or_no(answer)
        if agreed is False:
            return None
        if agreed is None:
            return self._sample_type(answer, also="yes, no")
        for number, name in enumerate(sorted(SAMPLE_TYPES)):
            self._show(f"  {number:>2}  {name}")
        answer = self._ask(f"Sample type, by name or number (empty: {likeliest_first[0].name})")
        return self._sample_type(answer) if answer else likeliest_first[0]

    def use_field_map(self, spec: SampleTypeSpec) -> bool:
        answer = self._ask(f"Take the fields of {spec.name} straight from parts (a field map)? (yes, no)") or "yes"
        agreed = yes_or_no(answer)
        if agreed is None:
            raise self._wrong(answer, "expected yes or no")
        return agreed

    def field(self, question: FieldQuestion) -> str:
        field = question.field
        empty = "" if field.required else " (empty: leave it out)"
        answer = self._ask(f"Part for {field.name!r}{empty}; {field_hint(question)}")
        fault = check_field(question, answer)
        if fault is not None and not fault.startswith("no inspected sample"):  # later shards may have it
            raise self._wrong(answer, fault)
        return answer

    def accept_field_map(self, spec: SampleTypeSpec, field_map: Mapping[str, str]) -> bool:  # noqa: ARG002 - see Questions
        return True

    def _sample_type(self, answer: str, *, also: str = "") -> SampleTypeSpec:
        if answer.isdecimal() and not also:
            spec = _sample_type_by_number(int(answer))
            if spec is None:
                raise self._wrong(answer, f"expected a number from 0 to {len(SAMPLE_TYPES) - 1}")
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
                f"the answers ended where number {self._asked} was expected: {question}",
                at="standard input",
                hint="pipe one line for each question, or use flags (--yes, or --non-interactive --split-ratio …)",
            )
        answer = line.strip()
        self._show(f"> {answer}")
        return answer

    def _understand(self, parse: Callable[[], dict[str, float]]) -> dict[str, float]:
        try:
            return parse()
        except ConfigError as error:
            raise ConfigError(error.message, at=f"answer {self._asked} on standard input", hint=error.hint) from error

    def _wrong(self, answer: str, why: str) -> EnergonError:
        return ConfigError(f"{answer!r} is no answer here: {why}", at=f"answer {self._asked} on standard input")


def _sample_type_by_number(number: int) -> SampleTypeSpec | None:
    """Give the sample type of that place in the alphabetical list, from 0; None if there is none."""
    names = sorted(SAMPLE_TYPES)
    return SAMPLE_TYPES[names[number]] if 0 <= number < len(names) else None


def yes_or_no(text: str) -> bool | None:
    """Understand an answer to a yes/no question; None where it is neither.

    >>> yes_or_no("Yes"), yes_or_no("n"), yes_or_no("CaptioningWebdataset")
    (True, False, None)
    """
    word = text.strip().lower()
    if word in _YES:
        return True
    return False if word in _NO else None
