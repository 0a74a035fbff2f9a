"""The wizard's questions as menus on a terminal: arrow keys, and proposals that Enter accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from loader.errors import ConfigError
from loader.format.documents import SampleTypeSpec
from loader.format.prepare import SplitRequest, parse_ratio, parse_split_part, split_by_patterns
from loader.inspect import FieldQuestion, check_field, field_hint

from ..console import plural
from ..preview.render import discard_input

__all__ = ["MenuQuestions", "ask_what_to_change", "confirm", "menu_label", "proposed_pattern"]

_OTHER_RATIO = "another ratio …"
_PATTERNS = "by patterns of shard names …"
_RATIOS = {"8,1,1    train, val and test": "8,1,1", "9,1,0    train and val": "9,1,0", "1,0,0    all train": "1,0,0"}
_ALL_TRAIN = {"1        all train": "1"}
_RATIOS_OF_FEW = {1: _ALL_TRAIN, 2: {"1,1      train and val": "1,1", **_ALL_TRAIN}}  # by the number of shards
_LABEL_COLUMNS = 76  # a menu's line on a terminal of 80 columns


class MenuQuestions:
    """Puts each question as a menu or as a line with a proposal in it.

    Args:
        shards: Names of the shards.
        try_field_map: Shows a sample made by a field map; False where it could not be made.
        show_split: Shows what a split comes to; raises ``ConfigError`` where it cannot be made.
    """

    def __init__(
        self,
        shards: Sequence[str],
        *,
        try_field_map: Callable[[SampleTypeSpec, Mapping[str, str]], bool],
        show_split: Callable[[SplitRequest], None],
    ) -> None:
        self._shards = shards
        self._try_field_map = try_field_map
        self._show_split = show_split

    def split(self, detected: Mapping[str, tuple[str, ...]] | None) -> SplitRequest:
        while True:
            choice = self._split(detected)
            try:
                self._show_split(choice)
            except ConfigError as error:
                _say(str(error))
                continue
            return choice

    def _split(self, detected: Mapping[str, tuple[str, ...]] | None) -> SplitRequest:
        choices: dict[str, Any] = {}
        if detected:
            counts = ", ".join(f"{name} ({plural(len(shards), 'shard')})" for name, shards in detected.items())
            choices[f"as the names say: {counts}"] = SplitRequest(parts=detected)
        ratios = _RATIOS_OF_FEW.get(len(self._shards), _RATIOS)
        choices |= {label: SplitRequest(ratio=parse_ratio(ratio)) for label, ratio in ratios.items()}
        picked = _select("How are the shards split?", [*choices, _OTHER_RATIO, _PATTERNS])
        if picked == _OTHER_RATIO:
            answer = _text(
                "Ratio of train, val and test", default=next(iter(ratios.values())), check=_fault_of(parse_ratio)
            )
            return SplitRequest(ratio=parse_ratio(answer))
        if picked == _PATTERNS:
            return SplitRequest(patterns=self._ask_patterns())
        choice: SplitRequest = choices[picked]
        return choice

    def _ask_patterns(self) -> tuple[tuple[str, str], ...]:
        patterns: list[tuple[str, str]] = []

        def match(text: str) -> int:
            found = split_by_patterns(self._shards, [parse_split_part(text)])
            return sum(map(len, found.parts.values()))

        while True:
            answer = _text(
                "Part and pattern (empty ends)" if patterns else "Part and pattern",
                default="" if patterns else f"train:{proposed_pattern(self._shards)}",
                check=_fault_of(lambda text: match(text) if text or not patterns else None),
            )
            if not answer:
                return tuple(patterns)
            _say(f"{answer}: {plural(match(answer), 'shard')} of {len(self._shards):,}")
            patterns.append(parse_split_part(answer))

    def sample_type(self, likeliest_first: Sequence[SampleTypeSpec]) -> SampleTypeSpec | None:
        labels = {menu_label(spec): spec for spec in likeliest_first}
        none = "none: write no dataset.yaml now"
        picked = _select("What are the samples?", [*labels, none])
        return labels.get(picked)

    def use_field_map(self, spec: SampleTypeSpec) -> bool:
        straight = "straight from parts, or values inside json (a field map)"
        picked = _select(
            f"Where do the fields of {spec.name} come from?",
            [straight, "from code that I write (a sample_loader.py to fill in)"],
        )
        return bool(picked == straight)

    def field(self, question: FieldQuestion) -> str:
        field = question.field
        optional = "" if field.required else ", may be left empty"

        def check(answer: str) -> str | None:
            return check_field(question, answer)

        return _text(
            f"{field.name} ({field.kind.replace('_', ' ')}{optional}) from",
            default=question.proposal,
            check=check,
            hint=field_hint(question),
        )

    def accept_field_map(self, spec: SampleTypeSpec, field_map: Mapping[str, str]) -> bool:
        if self._try_field_map(spec, field_map):
            return True
        again = "change the fields"
        return _select("This sample cannot be made so.", [again, "keep this map all the same"]) != again


def ask_what_to_change(*, has_dataset_yaml: bool) -> tuple[bool, bool]:
    """Ask what is to change in a dataset that is prepared already.

    Returns:
        Whether to ask for the split, and whether to ask for the sample type.
    """
    kind = "the sample type and fields" if has_dataset_yaml else "nothing has a sample type yet: choose one"
    answers = {
        "only index what changed": (False, False),
        kind: (False, True),
        "the split": (True, False),
        "the split, the sample type and fields": (True, True),
    }
    return answers[_select("This dataset is prepared already. What should change?", list(answers))]


def confirm(question: str) -> bool:
    """Ask yes or no, yes being the proposal."""
    import questionary

    discard_input()  # keys pressed before the question was there are no answer to it
    return bool(questionary.confirm(question, default=True, style=_style()).unsafe_ask())


def menu_label(spec: SampleTypeSpec) -> str:
    """Give a sample type's line of a menu: its fields, as many as fit."""
    if spec.crude:
        return f"{spec.name:<27} parts as they are, for a cooker to work on"
    label = f"{spec.name:<27} {', '.join(spec.required)}"
    optional = "".join(f", [{field.name}]" for field in spec.fields if not field.required)
    if len(label + optional) > _LABEL_COLUMNS:
        optional = f", and {len(spec.optional)} that may be left out"
    return label + optional


def proposed_pattern(shards: Sequence[str]) -> str:
    """Give a pattern that matches shards of such names, to start from: ``shard_.*``."""
    first, last = min(shards), max(shards)
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    prefix = "".join(character for character, _ in alike).removesuffix(".tar").rstrip("0123456789")
    return (prefix if re.fullmatch(r"[\w./-]*", prefix) else "") + ".*"


def _fault_of(parse: Callable[[str], Any]) -> Callable[[str], str | None]:
    def check(answer: str) -> str | None:
        try:
            parse(answer)
        except ConfigError as error:
            return " ".join(error.message.split())
        return None

    return check


def _select(question: str, choices: Sequence[str]) -> str:
    import questionary

    discard_input()
    picked: str = questionary.select(question, choices=list(choices), style=_style(), instruction=" ").unsafe_ask()
    return picked


def _text(
    question: str,
    *,
    default: str,
    check: Callable[[str], str | None],
    hint: str | None = None,
) -> str:
    import questionary

    if hint:
        _say(hint)

    def validate(answer: str) -> bool | str:
        return check(answer.strip()) or True

    discard_input()
    answer: str = questionary.text(question, default=default, validate=validate, style=_style()).unsafe_ask()
    return answer.strip()


def _say(text: str) -> None:
    from ..console import error_console, escape_controls

    error_console().print(escape_controls(text, keep="\n"), style="dim")


def _style() -> Any:
    import questionary

    return questionary.Style([("qmark", "fg:ansicyan"), ("answer", "fg:ansicyan"), ("highlighted", "fg:ansicyan bold")])
