"""The text and the page that show a dataset: what ``energon info`` shows, and its first samples."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from ..errors import EnergonError, TrustError, escape_controls
from ..format.documents.load_request import LoadRequest
from ..format.worker_pool import usable_cores
from ..inspect.facts import path_facts
from ..inspect.report import show_facts
from ..inspect.text import plural
from ..samples.sample_html import Page, add_sample, escaped

if TYPE_CHECKING:
    from .opened_dataset import OpenedDataset

_WIDTH = 120
_SAMPLES = 8


def info_text(dataset: OpenedDataset, request: LoadRequest, selection: tuple[str, ...]) -> str:
    """Return the screen of ``energon info`` for a dataset; after a selection, also what was selected."""
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
        stream.write(f"{escape_controls(request.path)}\n{plural(len(dataset), 'sample')}\n{error}\n")
    lines = escape_controls(stream.getvalue(), keep="\n").rstrip("\n")
    if not selection:
        return lines
    return f"{lines}\n\nselected: {plural(len(dataset), 'sample')} by {escape_controls(', '.join(selection))}"


def dataset_html(dataset: OpenedDataset) -> str:
    """Return the page of a dataset: its information, and its first samples with pictures."""
    page = Page()
    page.add(f"<pre>{escaped(repr(dataset))}</pre>")
    excluded = set(dataset.excluded[:_SAMPLES].tolist())
    for number in range(min(_SAMPLES, len(dataset))):
        title = f"{number}   {dataset.key(number)}{', excluded' if number in excluded else ''}"
        try:
            add_sample(page, dataset[number], title=title)
        except TrustError as error:
            add_sample(page, dataset.parts(number), title=f"{title}   shown as parts: {error.message}")
        except Exception as error:  # noqa: BLE001 - the dataset's own code may raise anything
            page.add(f"<p><b>{escaped(title)}</b></p><pre>{escaped(f'{type(error).__name__}: {error}')}</pre>")
    return page.text()
