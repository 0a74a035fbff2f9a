"""The text and the page that show a dataset: what ``energon info`` shows, and its first samples."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..errors import EnergonError, TrustError, escape_controls
from ..format.documents.load_request import LoadRequest
from ..format.worker_pool import usable_cores
from ..inspect.facts import path_facts
from ..inspect.report import show_facts
from ..inspect.text import plural
from ..samples.sample_html import Page, add_sample, escaped

_WIDTH = 120


def info_text(request: LoadRequest, samples: int, selection: tuple[str, ...]) -> str:
    """Return the screen of ``energon info`` for a dataset.

    Args:
        request: The dataset.
        samples: Number of samples of the dataset or selection.
        selection: The criteria that selected them; empty for all samples.
    """
    from rich.console import Console

    class TextConsole(Console):
        """A console whose lines are as long as their texts."""

        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*objects, **options, soft_wrap=True)

    stream = io.StringIO()
    console = TextConsole(
        file=stream, width=_WIDTH, color_system=None, markup=False, highlight=False, emoji=False, force_jupyter=False
    )
    try:
        facts = path_facts(request.ref, workers=usable_cores())
        show_facts(console, facts)
    except EnergonError as error:
        stream.write(f"{escape_controls(request.path)}\n{plural(samples, 'sample')}\n{error}\n")
    lines = escape_controls(stream.getvalue(), keep="\n").rstrip("\n")
    if not selection:
        return lines
    return f"{lines}\n\nselected: {plural(samples, 'sample')} by {escape_controls(', '.join(selection))}"


class ShownSample(NamedTuple):
    """A sample to show: its heading, and functions that return it and its parts."""

    title: str
    load: Callable[[], Any]
    parts: Callable[[], Mapping[str, bytes]]


def dataset_html(text: str, samples: Iterable[ShownSample]) -> str:
    """Return the page of a dataset: its information, and samples with pictures."""
    page = Page()
    page.add(f"<pre>{escaped(text)}</pre>")
    for title, load, parts in samples:
        try:
            add_sample(page, load(), title=title)
        except TrustError as error:
            add_sample(page, parts(), title=f"{title}   shown as parts: {error.message}")
        except Exception as error:  # noqa: BLE001 - the dataset's own code may raise anything
            page.add(f"<p><b>{escaped(title)}</b></p><pre>{escaped(f'{type(error).__name__}: {error}')}</pre>")
    return page.text()
