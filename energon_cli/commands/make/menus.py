"""The questions as terminal menus: arrow keys choose, and Enter accepts a proposal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import takewhile
from typing import Any

from loader.errors import ConfigError, plural
from loader.format.documents import SampleTypeSpec
from loader.inspect import FieldQuestion, OpenChoices, check_field, complete_field, field_hint
from loader.prepare import SplitRequest, format_ratio, parse_ratio, parse_split_part, split_by_patterns

from .prompts import AnswerHistory, GoBack, ask_text, leave, print_dim, select

_RATIOS = {"8,1,1    train, val and test": "8,1,1", "9,1,0    train and val": "9,1,0", "1,0,0    all train": "1,0,0"}
_DEFAULT_RATIO = "8,1,1"
_OTHER_RATIO = "custom ratio …"
_PATTERNS = "by patterns of shard names …"
_NO_TYPE = "none: do not write a dataset.yaml"
_BY_SAMPLES = "8,1,1    of the samples in each shard"
_LABEL_COLUMNS = 76  # a menu's line on a terminal of 80 columns


@dataclass(eq=False)
class MenuQuestions:
    """Prompts as menus and text inputs, which start with the previous answers, and that a user can go back to.

    Args:
        history: The answers so far; a prompt that is answered is not shown again.
        sizes: Sizes of the shards in bytes, by their names.
        path: The dataset, as the user names it.
        what: What is split.
        ways: Ways to split that come before ratios; None for the ways of shards.
        try_field_map: Shows a sample built with a field map; returns False if that fails.
        show_split: Shows the shards of each part of a split; returns True if whole shards miss its ratio, and raises
            ``ConfigError`` if the split is invalid.
    """

    asks_all = False

    history: AnswerHistory
    sizes: Mapping[str, int]
    _: KW_ONLY
    path: str = ""
    what: str = "shards"
    ways: Mapping[str, SplitRequest] | None = None
    try_field_map: Callable[[SampleTypeSpec, Mapping[str, str]], bool]
    show_split: Callable[[SplitRequest], bool] = lambda _: False

    def what_to_change(self, *, has_dataset_yaml: bool) -> tuple[bool, bool]:
        """Prompt for what to change of a prepared dataset: the split, and the sample type with its fields."""
        kind = "the sample type and fields" if has_dataset_yaml else "the sample type, which is not set yet"
        answers = {
            "nothing: only index changed shards": (False, False),
            kind: (False, True),
            "the split": (True, False),
            "the split, the sample type and fields": (True, True),
        }

        def ask(previous: tuple[bool, bool] | None) -> tuple[bool, bool]:
            default = next((label for label, answer in answers.items() if answer == previous), None)
            question = "This dataset is already prepared. What should change?"
            return answers[self._select(question, list(answers), default)]

        return self.history.answer("change", ask)

    def split(self, proposed: SplitRequest) -> SplitRequest:
        return self.history.answer("split", lambda previous: self._ask_split(proposed, previous))

    def _ask_split(self, proposed: SplitRequest, previous: SplitRequest | None) -> SplitRequest:
        while True:
            choice = self._pick_split(proposed, previous)
            try:
                return self._divided(choice) if self.show_split(choice) else choice
            except ConfigError as error:
                print_dim(str(error))
            except GoBack:
                previous = choice

    def _divided(self, choice: SplitRequest) -> SplitRequest:
        ratio = format_ratio(choice.ratio or {})
        folders = (self.path, f"{self.path.rstrip('/')}-split")
        command = shlex.join(["energon", "reshard", *folders, "--split-ratio", ratio])
        by_samples = "by samples: the same share of each shard (megatron-energon itself cannot read this)"
        reshard = f"leave, and write other shards: {command}"
        answers = [by_samples, reshard, "as it is: whole shards"]
        answer = select("Whole shards miss this ratio. How should they be split?", answers, can_go_back=True)
        if answer == reshard:
            leave()
        choice = replace(choice, by_samples=answer == by_samples)
        if choice.by_samples:
            self.show_split(choice)
        return choice

    def _ways_to_split(self, proposed: SplitRequest) -> dict[str, SplitRequest]:
        # Collect the choices: the proposal, if it comes from names, then ratios.
        choices = dict(self.ways or {})
        if proposed.parts:
            counts = ", ".join(f"{name} ({plural(len(shards), 'shard')})" for name, shards in proposed.parts.items())
            choices[f"by shard names: {counts}"] = proposed
        ratios = {label: SplitRequest(ratio=parse_ratio(ratio)) for label, ratio in _RATIOS.items()}
        if self.ways is not None:
            return choices | ratios
        if len(self.sizes) == 1 and not proposed.by_samples:
            ratios = dict(reversed(ratios.items()))  # all train first
        by_samples = {_BY_SAMPLES: SplitRequest(ratio=parse_ratio(_DEFAULT_RATIO), by_samples=True)}
        return choices | (by_samples | ratios if proposed.by_samples else ratios | by_samples)

    def _pick_split(self, proposed: SplitRequest, previous: SplitRequest | None) -> SplitRequest:
        choices = self._ways_to_split(proposed)
        labels = [*choices, _OTHER_RATIO, *([_PATTERNS] if self.ways is None else [])]
        # Point at the previous answer.
        default = next((label for label, choice in choices.items() if choice == previous), None)
        if previous is not None and default is None:
            default = _OTHER_RATIO if previous.patterns is None else _PATTERNS
        # Prompt, again if the user goes back from a ratio or patterns.
        while True:
            picked = self._select(f"How should the {self.what} be split?", labels, default)
            try:
                if picked == _OTHER_RATIO:
                    typed = format_ratio((previous.ratio if previous else None) or {}) or _DEFAULT_RATIO
                    check = validator(parse_ratio)
                    typed = ask_text("Ratio of train, val and test", default=typed, check=check)
                    return SplitRequest(ratio=parse_ratio(typed))
                if picked == _PATTERNS:
                    return SplitRequest(patterns=self._ask_patterns())
            except GoBack:
                default = picked
                continue
            return choices[picked]

    def _ask_patterns(self) -> tuple[tuple[str, str], ...]:
        patterns: list[tuple[str, str]] = []

        def match(text: str) -> int:
            return sum(map(len, split_by_patterns(list(self.sizes), [parse_split_part(text)]).parts.values()))

        while True:
            answer = ask_text(
                "Part and pattern (empty to finish)" if patterns else "Part and pattern",
                default="" if patterns else f"train:{proposed_pattern(list(self.sizes))}",
                check=validator(lambda text: match(text) if text or not patterns else None),
            )
            if not answer:
                return tuple(patterns)
            print_dim(f"{answer}: {plural(match(answer), 'shard')} of {len(self.sizes):,}")
            patterns.append(parse_split_part(answer))

    def sample_type(self, given: OpenChoices) -> SampleTypeSpec | None:
        # A previous answer may be None, so that it is wrapped.
        return self.history.answer("type", lambda previous: (self._ask_type(given, previous),))[0]

    def _ask_type(self, given: OpenChoices, previous: tuple[SampleTypeSpec | None] | None) -> SampleTypeSpec | None:
        fitting = given.fitting
        types: dict[str, SampleTypeSpec | None] = {menu_label(spec): spec for spec in given.proposal.sample_types}
        default = next((label for label, spec in types.items() if (spec,) == previous), None)
        fits = {label: spec for label, spec in types.items() if spec is None or spec.name in fitting}
        others = [label for label in types if label not in fits]
        more = [f"more types, for which parts are missing ({len(others)}) …"] if others else []
        while True:
            first = _NO_TYPE if previous == (None,) else more[0] if default in others else default
            picked = self._select("What type are the samples?", [*fits, *more, _NO_TYPE], first)
            if picked not in more:
                return fits.get(picked)
            try:
                return types[select("What type are the samples?", others, default=default, can_go_back=True)]
            except GoBack:
                previous, default = None, others[0]

    def use_field_map(self, spec: SampleTypeSpec, *, proposes_code: bool = False) -> bool:
        field_map = "parts, or values inside json (a field map)"
        code = "my own code (a sample_loader.py to fill in)"
        choices = [field_map, code]
        if proposes_code:
            code = "generated code (a sample_loader.py, which needs --trust-code)"
            choices = [code, field_map]

        def ask(previous: bool | None) -> bool:
            default = None if previous is None else field_map if previous else code
            return self._select(f"Where do the fields of {spec.name} come from?", choices, default) == field_map

        return self.history.answer(("map", spec.name), ask)

    def field(self, question: FieldQuestion) -> str:
        field = question.field
        optional = "" if field.required else ", optional"

        def ask(previous: str | None) -> str:
            shown = question if previous is None else replace(question, proposal=previous)
            return ask_text(
                f"{field.name} ({field.kind.replace('_', ' ')}{optional}) from",
                default=shown.proposal,
                check=lambda answer: check_field(shown, answer),
                hint=f"{field_hint(shown)}; Tab completes",
                complete=lambda text: complete_field(shown, text),
            )

        return self.history.answer(("field", question.spec.name, field.name), ask)

    def accept_field_map(self, spec: SampleTypeSpec, field_map: Mapping[str, str]) -> bool:
        works = not self.history.is_recorded() and self.try_field_map(spec, field_map)
        edit, keep = "change the fields", "keep this map anyway"

        def ask(_previous: bool | None) -> bool:
            return works or self._select("The sample cannot be built with this field map.", [edit, keep]) != edit

        return self.history.answer("accept", ask, prompted=not works)

    def _select(self, question: str, choices: Sequence[str], default: str | None = None) -> str:
        return select(question, choices, default=default, can_go_back=self.history.can_go_back)


def menu_label(spec: SampleTypeSpec) -> str:
    """Format a sample type as a menu line, with as many of its fields as fit."""
    if spec.crude:
        return f"{spec.written_name:<27} a dict of all parts, for your code (a cooker)"
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


def validator(parse: Callable[[str], Any]) -> Callable[[str], str | None]:
    """Return a function that returns the fault of an answer, if a function refuses to parse it."""

    def check(answer: str) -> str | None:
        try:
            parse(answer)
        except ConfigError as error:
            return " ".join(error.message.split())
        return None

    return check
