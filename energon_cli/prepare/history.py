"""Go back to earlier prompts of ``energon prepare``: answers are kept, and the prompts are replayed from them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from loader.format.documents import SampleTypeSpec
from loader.format.prepare import SplitRequest
from loader.inspect import FieldQuestion

from .prompts import GoBack, confirm

if TYPE_CHECKING:
    from .menus import MenuQuestions

_Result = TypeVar("_Result")


class AnswerHistory:
    """The answers of a user in the order of the prompts; a step back removes the last one, which becomes a default."""

    def __init__(self) -> None:
        self._answers: list[tuple[Any, bool]] = []  # answer, and whether the user was prompted for it
        self._replayed = 0
        self._previous: dict[Hashable, Any] = {}
        self._shown: set[str] = set()

    @property
    def can_go_back(self) -> bool:
        """True if the user has answered a prompt."""
        return any(prompted for _, prompted in self._answers)

    def run(self, ask: Callable[[], _Result]) -> _Result:
        """Run a sequence of prompts, and run it again from the answers that are left when the user goes back."""
        while True:
            self._replayed = 0
            try:
                return ask()
            except GoBack:
                self.back()

    def answer(self, prompt: Hashable, ask: Callable[[Any], Any], *, prompted: bool = True) -> Any:
        """Return the answer of a prompt: the recorded one, or a new one.

        Args:
            prompt: Identifies the prompt.
            ask: Prompts the user, with the previous answer as its argument; None if there was none.
            prompted: False if ``ask`` shows no prompt; no step leads back to it.
        """
        if self._replayed == len(self._answers):
            self._answers.append((ask(self._previous.get(prompt)), prompted))
        answer = self._previous[prompt] = self._answers[self._replayed][0]
        self._replayed += 1
        return answer

    def is_recorded(self) -> bool:
        """Return True if the next prompt is replayed."""
        return self._replayed < len(self._answers)

    def back(self) -> None:
        """Remove the answers from the last prompt on."""
        while self._answers and not self._answers.pop()[1]:
            pass

    def restart(self) -> None:
        """Return to the first prompt."""
        self._answers.clear()

    def confirm(self, question: str) -> bool:
        """Prompt for the confirmation; return False to prompt for the answers again.

        Raises:
            click.exceptions.Exit: The user leaves.
        """
        try:
            answer = confirm(question, can_change=self.can_go_back)
        except GoBack:
            self.back()
            return False
        if answer == "change":
            self.restart()
        return answer == "write"

    def first_time(self, what: str) -> bool:
        """Return True at the first call for ``what``: it need not be shown again."""
        is_first = what not in self._shown
        self._shown.add(what)
        return is_first


class RewindableQuestions:
    """Prompts as menus that start with the previous answers, and that a user can go back to."""

    asks_all = False

    def __init__(self, menus: MenuQuestions, history: AnswerHistory) -> None:
        self._menus = menus
        self._history = history

    def _answer(self, prompt: Hashable, ask: Callable[[Any], _Result]) -> _Result:
        self._menus.can_go_back = self._history.can_go_back
        answer: _Result = self._history.answer(prompt, ask)
        return answer

    def what_to_change(self, *, has_dataset_yaml: bool) -> tuple[bool, bool]:
        """Prompt for the parts of a prepared dataset to change: the split, and ``dataset.yaml``."""
        return self._answer(
            "change", lambda previous: self._menus.what_to_change(previous, has_dataset_yaml=has_dataset_yaml)
        )

    def split(self, proposed: SplitRequest) -> SplitRequest:
        return self._answer("split", lambda previous: self._menus.split(proposed, previous))

    def sample_type(
        self, likeliest_first: Sequence[SampleTypeSpec], fitting: AbstractSet[str]
    ) -> SampleTypeSpec | None:
        # A previous answer may be None, so that it is wrapped.
        return self._answer("type", lambda previous: (self._menus.sample_type(likeliest_first, fitting, previous),))[0]

    def use_field_map(self, spec: SampleTypeSpec, *, proposes_code: bool = False) -> bool:
        def ask(previous: bool | None) -> bool:
            return self._menus.use_field_map(spec, proposes_code=proposes_code, default=previous)

        return self._answer(("map", spec.name), ask)

    def field(self, question: FieldQuestion) -> str:
        def ask(previous: str | None) -> str:
            return self._menus.field(question if previous is None else replace(question, proposal=previous))

        return self._answer(("field", question.spec.name, question.field.name), ask)

    def accept_field_map(self, spec: SampleTypeSpec, field_map: Mapping[str, str]) -> bool:
        works = not self._history.is_recorded() and self._menus.try_field_map(spec, field_map)
        return bool(
            self._history.answer("accept", lambda _: works or self._menus.keep_failing_field_map(), prompted=not works)
        )
