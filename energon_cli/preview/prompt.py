"""A line that the user types at the bottom of the screen."""

from __future__ import annotations

from ..console import escape_controls


class Prompt:
    """A question and the text typed so far.

    Args:
        label: The question.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.text = ""
        self.is_over = False
        self.is_accepted = False

    def __str__(self) -> str:
        return f"{self.label}: {escape_controls(self.text)}_"

    def press(self, key: str) -> None:
        """Add a character, remove one, accept the text or give it up."""
        if key == "backspace" and self.text:
            self.text = self.text[:-1]
        elif key in ("enter", "backspace", "escape", "end of input"):
            self.is_over = True
            self.is_accepted = key == "enter"
        elif len(key) == 1 and key.isprintable():
            self.text += key
