"""Single prompts on a terminal: a menu, a text with completion, and the confirmation. Esc goes back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Literal

from ..ascii_text import in_ascii, is_ascii_only
from ..preview.terminal import discard_input

Confirmation = Literal["write", "change", "leave"]


class GoBack(Exception):  # noqa: N818 - a wish of the user
    """The user wants to return to the prompt before."""


def load_prompts() -> None:
    """Import the library of the prompts: while a scan runs, this takes several times as long."""
    import questionary  # noqa: F401 - see above


def select(question: str, choices: Sequence[str], *, default: str | None = None, can_go_back: bool = False) -> str:
    """Prompt with a menu.

    Args:
        question: The question.
        choices: Lines of the menu.
        default: The line to point at first; by default, or if the menu has no such line, the first one.
        can_go_back: Show the key for going back.

    Raises:
        GoBack: Esc was pressed.
    """
    import questionary

    prompt = questionary.select(
        question,
        choices=[questionary.Choice(in_ascii(line), value=line) for line in choices] if is_ascii_only() else choices,
        pointer=_pointer(),
        default=default if default in choices else None,
        style=_style(),
        instruction="(esc: back)" if can_go_back else " ",
    )
    _add_back(prompt.application.key_bindings)
    return str(_run(prompt))


def ask_text(
    question: str,
    *,
    default: str,
    check: Callable[[str], str | None],
    hint: str | None = None,
    complete: Callable[[str], Sequence[str]] | None = None,
) -> str:
    """Prompt for a text.

    Args:
        question: The question.
        default: The text to start with.
        check: Returns the fault of an answer, or None.
        hint: A line to print above.
        complete: Returns the texts that Tab may complete a text to.

    Raises:
        GoBack: Esc was pressed.
    """
    import questionary
    from prompt_toolkit.key_binding import KeyBindings

    from ..console import escape_controls

    if hint:
        print_dim(hint)

    def validate(answer: str) -> bool | str:
        return escape_controls(check(answer.strip()) or "") or True

    bindings = KeyBindings()
    _add_back(bindings)
    prompt = questionary.text(
        question,
        default=default,
        validate=validate,
        style=_style(),
        key_bindings=bindings,
        completer=None if complete is None else _completer(complete),
        complete_while_typing=False,
        input_processors=[_escaping_processor()],
    )
    return str(_run(prompt)).strip()


def confirm(question: str, *, can_change: bool) -> Confirmation:
    """Prompt for the confirmation; Enter and y mean yes, n returns to the prompts, and q leaves.

    Args:
        question: The question.
        can_change: There are answers to change; otherwise n leaves.

    Raises:
        GoBack: Esc was pressed.
    """
    import questionary

    answers: dict[Confirmation, tuple[str, str]] = {"write": ("y", "yes, write this")}
    if can_change:
        answers["change"] = ("n", "no, change the answers")
    answers["leave"] = ("q" if can_change else "n", "leave, and write nothing")
    choices = [questionary.Choice(f"{key}  {label}", value=value) for value, (key, label) in answers.items()]
    prompt = questionary.select(
        question,
        choices=choices,
        pointer=_pointer(),
        style=_style(),
        instruction="(esc: back)" if can_change else " ",
    )
    bindings: Any = prompt.application.key_bindings
    for value, (key, _) in answers.items():
        bindings.add(key, eager=True)(lambda event, value=value: event.app.exit(result=value))
    bindings.add("q", eager=True)(lambda event: event.app.exit(result="leave"))
    _add_back(bindings)
    answer: Confirmation = _run(prompt)
    return answer


def print_dim(text: str) -> None:
    """Print a hint or a fault to standard error."""
    from ..console import error_console, escape_controls

    error_console().print(escape_controls(text, keep="\n"), style="dim")


def _run(prompt: Any) -> Any:
    """Show a prompt, and ignore keys that were pressed before it appeared."""
    from prompt_toolkit.input.typeahead import clear_typeahead

    discard_input()  # what the terminal holds
    clear_typeahead(prompt.application.input)  # what the prompt before has read already
    return prompt.unsafe_ask()


def _add_back(bindings: Any) -> None:
    def go_back(event: Any) -> None:
        event.app.erase_when_done = True
        event.app.exit(exception=GoBack())

    bindings.add("escape", eager=True)(go_back)


def _completer(complete: Callable[[str], Sequence[str]]) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    from ..console import escape_controls

    class FunctionCompleter(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Any:  # noqa: ARG002 - its interface
            text = document.text_before_cursor
            return (
                Completion(found, start_position=-len(text), display=escape_controls(found)) for found in complete(text)
            )

    return FunctionCompleter()


def _escaping_processor() -> Any:
    """Return a processor that shows the text of an input escaped; prompt_toolkit escapes no bidirectional marks."""
    from prompt_toolkit.formatted_text import fragment_list_to_text
    from prompt_toolkit.layout.processors import Processor, Transformation

    from ..console import escape_controls

    class EscapingProcessor(Processor):
        def apply_transformation(self, transformation_input: Any) -> Any:
            fragments = transformation_input.fragments
            shown = [len(escape_controls(character)) for character in fragment_list_to_text(fragments)]
            starts = [0, *accumulate(shown)]  # of each character, in the escaped text
            return Transformation(
                [(style, "".join(map(escape_controls, text)), *handler) for style, text, *handler in fragments],
                source_to_display=lambda position: starts[position],
                display_to_source=lambda position: bisect_right(starts, position) - 1,
            )

    return EscapingProcessor()


def _pointer() -> str:
    return ">" if is_ascii_only() else "»"


def _style() -> Any:
    import questionary

    return questionary.Style([("qmark", "fg:ansicyan"), ("answer", "fg:ansicyan"), ("highlighted", "fg:ansicyan bold")])
