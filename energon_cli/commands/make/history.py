"""Go back to earlier prompts of ``energon prepare``: answers are kept, and the prompts are replayed from them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from .prompts import GoBack, confirm

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

    def answer(self, prompt: Hashable, ask: Callable[[Any], _Result], *, prompted: bool = True) -> _Result:
        """Return the answer of a prompt: the recorded one, or a new one.

        Args:
            prompt: Identifies the prompt.
            ask: Prompts the user, with the previous answer as its argument; None if there was none.
            prompted: False if ``ask`` shows no prompt; no step leads back to it.
        """
        if self._replayed == len(self._answers):
            self._answers.append((ask(self._previous.get(prompt)), prompted))
        answer: _Result = self._answers[self._replayed][0]
        self._previous[prompt] = answer
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
