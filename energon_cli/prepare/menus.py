"""Prompts of ``energon prepare`` as terminal menus: arrow keys choose, and Enter accepts a proposal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from loader.errors import ConfigError
from loader.format.documents import SampleTypeSpec
from loader.format.prepare import SplitRequest, parse_ratio, parse_split_part, split_by_patterns
from loader.inspect import FieldQuestion, check_field, field_hint, plural

from ..preview.render import discard_input

__all__ = ["MenuQuestions", "ask_what_to_change", "confirm", "menu_label", "proposed_pattern"]

_OTHER_RATIO = "custom ratio …"
_PATTERNS = "by patterns of shard names …"
_RATIOS = {"8,1,1    train, val and test": "8,1,1", "9,1,0    train and val": "9,1,0", "1,0,0    all train": "1,0,0"}
_ALL_TRAIN = {"1        all train": "1"}
_RATIOS_BY_SHARDS = {1: _ALL_TRAIN, 2: {"1,1      train and val": "1,1", **_ALL_TRAIN}}  # by the number of shards
_LABEL_COLUMNS = 76  # a menu's line on a terminal of 80 columns


class MenuQuestions:
    """Prompts as menus, and as text inputs with a proposal.

    Args:
        shards: Names of the shards.
        try_field_map: Shows a sample built with a field map; returns False if that fails.
        show_split: Shows the shards of each part of a split; raises ``ConfigError`` if the split is invalid.
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
                _print_dim(str(error))
                continue
            return choice

    def _split(self, detected: Mapping[str, tuple[str, ...]] | None) -> SplitRequest:
        choices: dict[str, Any] = {}
        if detected:
            counts = ", ".join(f"{name} ({plural(len(shards), 'shard')})" for name, shards in detected.items())
            choices[f"by shard names: {counts}"] = SplitRequest(parts=detected)
        ratios = _RATIOS_BY_SHARDS.get(len(self._shards), _RATIOS)
        choices |= {label: SplitRequest(ratio=parse_ratio(ratio)) for label, ratio in ratios.items()}
        picked = _select("How should the shards be split?", [*choices, _OTHER_RATIO, _PATTERNS])
        if picked == _OTHER_RATIO:
            answer = _text(
                "Ratio of train, val and test", default=next(iter(ratios.values())), check=_validator(parse_ratio)
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
                "Part and pattern (empty to finish)" if patterns else "Part and pattern",
                default="" if patterns else f"train:{proposed_pattern(self._shards)}",
                check=_validator(lambda text: match(text) if text or not patterns else None),
            )
            if not answer:
                return tuple(patterns)
            _print_dim(f"{answer}: {plural(match(answer), 'shard')} of {len(self._shards):,}")
            patterns.append(parse_split_part(answer))

    def sample_type(self, likeliest_first: Sequence[SampleTypeSpec]) -> SampleTypeSpec | None:
        labels = {menu_label(spec): spec for spec in likeliest_first}
        none = "none: do not write a dataset.yaml"
        picked = _select("What type are the samples?", [*labels, none])
        return labels.get(picked)

    def use_field_map(self, spec: SampleTypeSpec) -> bool:
        field_map = "parts, or values inside json (a field map)"
        picked = _select(
            f"Where do the fields of {spec.name} come from?",
            [field_map, "my own code (a sample_loader.py to fill in)"],
        )
        return bool(picked == field_map)

    def field(self, question: FieldQuestion) -> str:
        field = question.field
        optional = "" if field.required else ", optional"

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
        edit = "change the fields"
        return _select("The sample cannot be built with this field map.", [edit, "keep this map anyway"]) != edit


def ask_what_to_change(*, has_dataset_yaml: bool) -> tuple[bool, bool]:
    """Prompt for the parts of a prepared dataset to change.

    Returns:
        True to prompt for the split, and True to prompt for the sample type.
    """
    kind = "the sample type and fields" if has_dataset_yaml else "the sample type, which is not set yet"
    answers = {
        "nothing: only index changed shards": (False, False),
        kind: (False, True),
        "the split": (True, False),
        "the split, the sample type and fields": (True, True),
    }
    return answers[_select("This dataset is already prepared. What should change?", list(answers))]


def confirm(question: str) -> bool:
    """Prompt for yes or no; Enter means yes."""
    import questionary

    discard_input()  # ignore keys pressed before the prompt appeared
    return bool(questionary.confirm(question, default=True, style=_style()).unsafe_ask())


def menu_label(spec: SampleTypeSpec) -> str:
    """Format a sample type as a menu line, with as many of its fields as fit."""
    if spec.crude:
        return f"{spec.name:<27} all parts, for a cooker"
    label = f"{spec.name:<27} {', '.join(spec.required)}"
    optional = "".join(f", [{field.name}]" for field in spec.fields if not field.required)
    if len(label + optional) > _LABEL_COLUMNS:
        optional = f", and {len(spec.optional)} optional"
    return label + optional


def proposed_pattern(shards: Sequence[str]) -> str:
    """Propose a pattern from the common prefix of the shards' names, such as ``shard_.*``."""
    first, last = min(shards), max(shards)
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    prefix = "".join(character for character, _ in alike).removesuffix(".tar").rstrip("0123456789")
    return (prefix if re.fullmatch(r"[\w./-]*", prefix) else "") + ".*"


def _validator(parse: Callable[[str], Any]) -> Callable[[str], str | None]:
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
        _print_dim(hint)

    def validate(answer: str) -> bool | str:
        return check(answer.strip()) or True

    discard_input()
    answer: str = questionary.text(question, default=default, validate=validate, style=_style()).unsafe_ask()
    return answer.strip()


def _print_dim(text: str) -> None:
    from ..console import error_console, escape_controls

    error_console().print(escape_controls(text, keep="\n"), style="dim")


def _style() -> Any:
    import questionary

    return questionary.Style([("qmark", "fg:ansicyan"), ("answer", "fg:ansicyan"), ("highlighted", "fg:ansicyan bold")])
