"""Results, searches, prompts and notes of a walk through samples, and the lines that show a sample."""

from __future__ import annotations

import io
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from loader.errors import escape_controls
from loader.inspect import SampleView

from ....terminal.render import DrawingSpace, render_sample

if TYPE_CHECKING:
    from rich.console import Console

Job = tuple[Hashable, Callable[[], Any]]
"""A name, and the function that computes its result."""

_KEPT = 32  # results
_CLOSE_S = 2.0
_SETTLE_S = 0.03  # with a held key, what is wanted next is known soon; the guesses before would only delay it


class AheadWorker:
    """One thread that computes the wanted results, the most urgent first, and keeps the latest of them.

    Samples are read by this thread only, since no reader of a dataset has to be safe for several.
    """

    def __init__(self, on_done: Callable[[], None]) -> None:
        self._on_done = on_done
        self._wanted: Sequence[Job] = ()
        self._results: OrderedDict[Hashable, tuple[Any, BaseException | None]] = OrderedDict()
        self._changed = threading.Condition()
        self._closing = False
        self._may_guess_at = 0.0
        self._thread = threading.Thread(target=self._run, name="energon-preview", daemon=True)
        self._thread.start()

    def want(self, jobs: Sequence[Job]) -> None:
        """Replace the wanted results; the computation that is running is finished."""
        with self._changed:
            self._wanted = jobs
            self._changed.notify()

    def get(self, name: Hashable) -> Any | None:
        """Return a result, or None if it is not computed yet; raise the error of its function."""
        with self._changed:
            if name not in self._results:
                return None
            self._results.move_to_end(name)
            result, error = self._results[name]
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the thread, after the computation that is running; one that takes long is abandoned."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while (job := self._take()) is not None:
            result, error = None, None
            try:
                result = job[1]()
            except BaseException as raised:  # noqa: BLE001 - get() raises it in the caller's thread
                error = raised
            with self._changed:
                self._results[job[0]] = (result, error)
                while len(self._results) > _KEPT + len(self._wanted):
                    self._results.popitem(last=False)
                if self._wanted and job[0] == self._wanted[0][0]:
                    self._may_guess_at = time.monotonic() + _SETTLE_S
            self._on_done()

    def _take(self) -> Job | None:
        """Wait for the next job; None: the worker closes."""
        with self._changed:
            while not self._closing:
                job = next((job for job in self._wanted if job[0] not in self._results), None)
                wait_s = self._may_guess_at - time.monotonic()
                if job is not None and (job is self._wanted[0] or wait_s <= 0):
                    return job
                self._changed.wait(None if job is None else wait_s)
        return None


_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


class NotedKeys:
    """Keys of samples, by the dataset that they are from."""

    def __init__(self) -> None:
        self._keys: dict[str | None, dict[str, None]] = {}

    def __contains__(self, sample: SampleView) -> bool:
        return sample.key is not None and sample.key in self._keys.get(sample.origin, {})

    def __len__(self) -> int:
        return sum(map(len, self._keys.values()))

    def toggle(self, sample: SampleView) -> None:
        if sample.key is None:
            return
        keys = self._keys.setdefault(sample.origin, {})
        if sample.key in keys:
            del keys[sample.key]
        else:
            keys[sample.key] = None

    def lines(self) -> list[str]:
        """Return the lines for ``split.yaml``; a comment before the lines of each dataset names it."""
        lines = []
        for origin, keys in self._keys.items():
            if keys:
                lines += [*([] if origin is None else [f"# {origin}"]), "exclude:"]
                lines += [f"- {key if _PLAIN.fullmatch(key) else json.dumps(key)}" for key in keys]
        return lines


_STEP_S = 0.1


def matches(sample: SampleView, pattern: str) -> bool:
    """Check whether the key or a text of a sample contains a pattern; lower case in it matches both cases."""
    fold = str.lower if pattern == pattern.lower() else str
    key = sample.title.partition("   ")[0]
    return any(pattern in fold(text) for text in (key, *(field.text for field in sample.fields)) if text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search that continues from one step to the next, from a sample on, once around the dataset."""

    pattern: str
    total: int
    place: int  # the next sample to read
    step: int  # 1 forward, -1 backward
    left: int  # samples that remain to be read
    found: int | None = None  # the first sample that matches

    @classmethod
    def after(cls, place: int, pattern: str, total: int, *, step: int) -> Search:
        """Return a search that begins after a place, and reads the sample at this place last."""
        return cls(pattern=pattern, total=total, place=(place + step) % total, step=step, left=total)

    @property
    def is_over(self) -> bool:
        """The search has found a sample, or read all of them."""
        return self.found is not None or not self.left

    def advance(self, view: Callable[[int], SampleView]) -> Search:
        """Return the search after a tenth of a second of reading."""
        end = time.monotonic() + _STEP_S
        place, left = self.place, self.left
        while left:
            if matches(view(place), self.pattern):
                return replace(self, place=place, left=left, found=place)
            place = (place + self.step) % self.total
            left -= 1
            if time.monotonic() > end:
                break
        return replace(self, place=place, left=left)


class Prompt:
    """A question and the text typed so far."""

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


# The lines of one sample on the screen.


Frame = tuple[SampleView, list[str]]
"""A sample, without its fields, and the lines that show it, with control sequences."""


def frame_renderer(console: Console, space: DrawingSpace, view: Callable[[int], SampleView]) -> Callable[[int], Frame]:
    """Return a function that reads and renders the sample at a place, for one size of the screen."""
    from rich.console import Console

    # A console of its own, since the worker renders while the main thread prints.
    captured = Console(
        file=io.StringIO(),
        force_terminal=True,
        width=space.columns,
        height=space.rows,
        color_system=console.color_system,  # type: ignore[arg-type] # a name that rich itself returned
        no_color=console.no_color,
        markup=False,
        highlight=False,
        emoji=False,
    )

    def render(index: int) -> Frame:
        sample = view(index)
        with captured.capture() as capture:
            captured.print(*render_sample(sample, space), sep="\n")
        # The fields, which may hold large pictures, are not kept.
        return replace(sample, fields=()), capture.get().removesuffix("\n").split("\n")

    return render
