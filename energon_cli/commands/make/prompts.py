"""Single prompts on a terminal, and the history of answers, in which Esc goes back."""

from __future__ import annotations

import shutil
import sys
import textwrap
from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate
from typing import Any, NoReturn, TypeVar

import click

from loader.errors import escape_controls

from ...console import error_console
from ...terminal.keys import RawMode, discard_input
from ...terminal_text import in_ascii, is_ascii_only


class GoBack(Exception):  # noqa: N818 - a wish of the user
    """The user wants to return to the prompt before."""


class _Leave(Exception):  # noqa: N818 - a wish of the user
    """The user wants to end the command."""


def no_echo(*, enabled: bool) -> AbstractContextManager[Any]:
    """Keep the terminal from showing keys that are typed between two prompts; they answer none."""
    return RawMode(sys.stdin.fileno(), on_change=lambda: None) if enabled else nullcontext()


def load_prompts() -> None:
    """Import the library of the prompts: while a scan runs, this takes several times as long."""
    import questionary  # noqa: F401 - see above


def select(question: str, choices: Sequence[str], *, default: str | None = None, can_go_back: bool = False) -> str:
    """Prompt with a menu that points at the default first; Esc goes back if ``can_go_back``, else it leaves."""
    prompt = _menu(
        question,
        {line: _wrapped(line, indent=5) for line in choices},
        default=default if default in choices else None,
        instruction=_legend("↑ ↓ choose, Enter accepts", "q leaves", can_go_back=can_go_back, after=question),
    )
    _add_leaving(prompt.application.key_bindings, "q", "c-d", can_go_back=can_go_back)
    answer = str(_run(prompt.application, prompt.unsafe_ask))
    if not answer.endswith("…"):  # another prompt follows
        _show_answer(question, answer)
    return answer


def select_or_leave(question: str, choices: Sequence[str], leaving: str) -> str:
    """Prompt with a menu that ends with a choice to leave; that choice, or Esc, ends the command."""
    try:
        answer = select(question, [*choices, leaving])
    except GoBack:
        leave()
    if answer == leaving:
        leave()
    return answer


def ask_text(
    question: str,
    *,
    default: str,
    check: Callable[[str], str | None],  # returns the fault of an answer
    hint: str | None = None,  # a line above, while the prompt is open
    complete: Callable[[str], Sequence[str]] | None = None,  # returns what Tab may complete a text to
) -> str:
    """Prompt for a text. The default is selected: a typed character replaces it, and an arrow key begins to edit it."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings

    # The prompt: hint, keys and fault stand above the question.
    fault = ""

    def message() -> Any:
        asked = [("class:qmark", "?"), ("class:question", f" {question} ")]
        keys = "type to replace, → edits" if default else ""
        keys = _legend(keys, "Ctrl-D leaves", can_go_back=True)
        above = [("class:hint", _wrapped(text) + "\n") for text in (hint, keys) if text]
        below = [("class:fault", _wrapped(fault) + "\n")] if fault else []
        return [(style, _shown(escape_controls(text, keep="\n"))) for style, text in (*above, *below, *asked)]

    def forget_fault(_buffer: Any) -> None:
        nonlocal fault
        fault = ""

    # The keys: Enter checks the answer, and a paste of several lines becomes one.
    bindings = KeyBindings()

    @bindings.add("enter", eager=True)
    def accept(event: Any) -> None:
        nonlocal fault
        fault = check(event.current_buffer.text.strip()) or ""
        if not fault:
            event.current_buffer.validate_and_handle()

    @bindings.add("<bracketed-paste>")
    def paste(event: Any) -> None:
        event.current_buffer.cut_selection()
        event.current_buffer.insert_text(" ".join(event.data.split()))

    _add_leaving(bindings, "c-d", can_go_back=True)
    # Ask, with the default selected.
    session: Any = PromptSession(
        message,
        style=_style(),
        key_bindings=bindings,
        completer=None if complete is None else _completer(complete),
        complete_while_typing=False,
        input_processors=[_escaping_processor()],
        erase_when_done=True,
    )
    session.default_buffer.on_text_changed += forget_fault

    def select_default() -> None:
        buffer = session.default_buffer
        buffer.cursor_position = 0
        buffer.start_selection()
        buffer.selection_state.enter_shift_mode()
        buffer.cursor_position = len(default)

    answer = str(_run(session.app, lambda: session.prompt(default=default, pre_run=select_default))).strip()
    _show_answer(question, answer)
    return answer


def _menu(question: str, lines: Mapping[str, str], *, instruction: str, default: str | None = None) -> Any:
    import questionary

    return questionary.select(
        _wrapped(question),
        choices=[questionary.Choice(line, value=value) for value, line in lines.items()],
        pointer=">" if is_ascii_only() else "»",
        default=default,
        style=_style(),
        instruction=instruction,
        erase_when_done=True,
    )


def leave() -> NoReturn:
    """End the command before it writes anything."""
    click.echo("nothing was written", err=True)
    raise click.exceptions.Exit(1)


def print_dim(text: str) -> None:
    """Print a hint or a fault to standard error."""
    error_console().print(escape_controls(text, keep="\n"), style="dim")


def _show_answer(question: str, answer: str) -> None:
    """Print a question and its answer, with line breaks between words, in place of the prompt."""
    from rich.text import Text

    parts = (("? ", "cyan"), f"{question} ", (escape_controls(" ".join(answer.split())), "cyan"))
    error_console().print(Text.assemble(*parts))


def _run(application: Any, show: Callable[[], Any]) -> Any:
    """Show a prompt, and ignore keys that were pressed before it appeared."""
    from prompt_toolkit.input.typeahead import clear_typeahead

    discard_input()  # what the terminal holds
    clear_typeahead(application.input)  # what the prompt before has read already
    try:
        return show()
    except _Leave:
        leave()


def _add_leaving(bindings: Any, *keys: str, can_go_back: bool) -> None:
    """Bind the keys that end a prompt: Esc goes back, or leaves where no prompt came before; the others leave."""
    first: Exception = GoBack() if can_go_back else _Leave()
    bindings.add("escape", eager=True)(lambda event: event.app.exit(exception=first))
    for key in keys:
        bindings.add(key, eager=True)(lambda event: event.app.exit(exception=_Leave()))


def _legend(keys: str, leaving: str, *, can_go_back: bool, after: str = "") -> str:
    """Return the keys of a prompt, on a line of their own if they do not fit behind the question."""
    known = (keys, "Esc goes back" if can_go_back else "", leaving)
    text = _shown(f"({', '.join(filter(None, known))})")
    return _wrapped(text) if len(f"? {after} {text}") < _columns() or not after else f"\n  {_wrapped(text, indent=2)}"


def _wrapped(text: str, *, indent: int = 0) -> str:
    """Return a text with line breaks between words, for lines that begin behind a mark of ``indent`` columns."""
    width = max(20, _columns() - max(indent, 2) - 1)
    return f"\n{' ' * indent}".join(textwrap.wrap(_shown(text), width, break_on_hyphens=False))


def _shown(text: str) -> str:
    return in_ascii(text) if is_ascii_only() else text


def _columns() -> int:
    return shutil.get_terminal_size().columns


def _completer(complete: Callable[[str], Sequence[str]]) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    class FunctionCompleter(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Any:  # noqa: ARG002 - its interface
            text = document.text_before_cursor
            return (
                Completion(completed, start_position=-len(text), display=escape_controls(completed))
                for completed in complete(text)
            )

    return FunctionCompleter()


def _escaping_processor() -> Any:
    """Return a processor that shows the text of an input escaped; prompt_toolkit escapes no bidirectional marks."""
    from prompt_toolkit.formatted_text import fragment_list_to_text
    from prompt_toolkit.layout.processors import Processor, Transformation

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


def _style() -> Any:
    import questionary

    colours = {
        "qmark": "fg:ansicyan",
        "highlighted": "fg:ansicyan bold",
        "hint": "fg:ansibrightblack",
        "fault": "fg:ansired",
    }
    return questionary.Style([*colours.items()])


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
        return any(prompted for _, prompted in self._answers)

    def run(self, ask: Callable[[], _Result]) -> _Result:
        """Run a sequence of prompts, and run it again from the answers that are left when the user goes back."""
        while True:
            self._replayed = 0
            try:
                return ask()
            except GoBack:
                self.back()

    def answer(
        self,
        prompt: Hashable,
        ask: Callable[[Any], _Result],  # gets the previous answer; None if the prompt had none
        *,
        prompted: bool = True,  # if ask shows no prompt, no step leads back to it
    ) -> _Result:
        """Return the answer of a prompt: the recorded one, or a new one."""
        if self._replayed == len(self._answers):
            self._answers.append((ask(self._previous.get(prompt)), prompted))
        answer: _Result = self._answers[self._replayed][0]
        self._previous[prompt] = answer
        self._replayed += 1
        return answer

    def is_recorded(self) -> bool:
        return self._replayed < len(self._answers)

    def back(self) -> None:
        while self._answers and not self._answers.pop()[1]:
            pass

    def confirm(self, question: str) -> bool:
        """Prompt for the confirmation: Enter and y mean yes; return False to prompt for the answers again."""
        can_change = self.can_go_back
        answers = {"write": ("y", "yes, write this")}
        if can_change:  # else n leaves
            answers["change"] = ("n", "no, change the answers")
        answers["leave"] = ("q" if can_change else "n", "leave, and write nothing")
        # Show the answers with their keys.
        prompt = _menu(
            question,
            {value: f"{key}  {label}" for value, (key, label) in answers.items()},
            instruction=_legend("", "", can_go_back=True, after=question) if can_change else " ",
        )
        bindings: Any = prompt.application.key_bindings
        for value, (key, _) in answers.items():
            bindings.add(key, eager=True)(lambda event, value=value: event.app.exit(result=value))
        _add_leaving(bindings, "q", "c-d", can_go_back=can_change)
        try:
            answer = _run(prompt.application, prompt.unsafe_ask)
        except GoBack:
            self.back()
            return False
        # Follow the answer.
        _show_answer(question, answers[answer][1])
        if answer == "leave":
            leave()
        if answer == "change":
            self._answers.clear()
        return bool(answer == "write")

    def first_time(self, what: str) -> bool:
        """Return True at the first call for ``what``: it need not be shown again."""
        is_first = what not in self._shown
        self._shown.add(what)
        return is_first
