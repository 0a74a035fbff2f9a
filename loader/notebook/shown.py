"""The text and the page that show a dataset: what ``energon info`` shows, and its first samples."""

from __future__ import annotations

import html
import io
import json
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from ..engine.workers import usable_cores
from ..errors import ConfigError, EnergonError, SampleError, TrustError, error_text, escape_controls, plural
from ..format.dataset_ref import DatasetRef
from ..format.documents.providers import LoadRequest
from ..inspect.facts import path_facts
from ..inspect.report import show_facts
from ..parts.kinds import kind_of_name
from ..parts.large_parts import SHOWN_JSON_BYTES, LargePart, limit_parts
from ..parts.open_picture import PIXEL_LIMIT_VARIABLE
from ..pipeline.reading.source import Raw, RawRow
from ..samples.decoding.part_decode import part_error
from ..samples.picture import is_too_large_to_show, most_shown_pixels
from ..samples.sample_format import Page, add_sample, escaped

_FRAME = """<iframe src="{url}" width="100%" height="{height}" style="border:1px solid #8886"></iframe>
<script>(() => {{
  const frame = document.currentScript && document.currentScript.previousElementSibling;
  if (frame && location.hostname === "127.0.0.1") frame.src = {near};
}})()</script>
<p>also at <a href="{url}" target="_blank">{shown}</a></p>"""
"""Cookies are sent within one host name only: that of the notebook."""


_SERVER = """
import os, signal, sys, threading
def end_with_parent():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=end_with_parent, daemon=True).start()
from energon_cli.main import main
sys.argv[0] = "energon"
main()
"""
"""``energon`` until its standard input ends: a kernel that is killed leaves no server."""


class BrowseFrame:
    """A running ``energon browse``, which ends with this object or program; a notebook shows it as a frame.

    Attributes:
        url: Its address, with the token.
        height: Pixels of the frame.
    """

    def __init__(self, process: subprocess.Popen[str], url: str, height: int) -> None:
        self.url = url
        self.height = height
        self._close = weakref.finalize(self, _end, process, os.getpid())

    @classmethod
    def start(cls, ref: DatasetRef, *, height: int) -> BrowseFrame:
        """Start a server at a free port of this machine, and wait until it serves pages.

        Raises:
            ConfigError: It does not start; the message is the server's.
        """
        # Without the working directory, where a notebook may have a loader.py of its own.
        command = [sys.executable, "-P", "-c", _SERVER, "browse", "--json", "--no-open", "--embed"]
        command += [] if ref.split_config is None else ["--split-config", ref.split_config]
        command += ref.folder_flags
        with tempfile.TemporaryFile("w+") as messages:
            # The pipe to its input ends with this process, and the server with the pipe.
            process = subprocess.Popen(
                [*command, "--", ref.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
                text=True,
                start_new_session=True,  # Ctrl-C interrupts the cell, not the server
            )
            # The first line has the address, once the server serves pages.
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                _end(process, os.getpid())
                messages.seek(0)
                raise ConfigError(f"energon browse does not start: {messages.read().strip()}", at=ref.path)
        return cls(process, json.loads(line)["url"], height)

    def close(self) -> None:
        """Stop the server."""
        self._close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    def _repr_html_(self) -> str:
        at_localhost = urlsplit(self.url)._replace(netloc=f"localhost:{urlsplit(self.url).port}").geturl()
        return _FRAME.format(
            url=html.escape(at_localhost),
            shown=html.escape(at_localhost.partition("?")[0]),
            near=json.dumps(self.url).replace("<", "\\u003c"),
            height=int(self.height),
        )


def _end(process: subprocess.Popen[str], owner: int) -> None:
    if os.getpid() == owner:  # forked workers have a copy of the frame
        process.terminate()
        process.communicate()


_WIDTH = 120


def info_text(request: LoadRequest, samples: int, selection: tuple[str, ...]) -> str:
    """Return the screen of ``energon info`` for a dataset or a selection, with the criteria of the selection."""
    from rich.console import Console

    # Plain text: `repr` shows it as it is, and the page escapes it.
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=_WIDTH,
        soft_wrap=True,  # lines are as long as their texts
        color_system=None,
        markup=False,
        highlight=False,
        emoji=False,
        force_jupyter=False,
    )
    # A dataset whose facts cannot be read can still have samples that can be.
    try:
        show_facts(console, path_facts(request.ref, workers=usable_cores()))
    except EnergonError as error:
        stream.write(f"{escape_controls(request.ref.path)}\n{plural(samples, 'sample')}\n{error}\n")
    # Names in the facts come from data, and a terminal may show them.
    lines = escape_controls(stream.getvalue(), keep="\n").rstrip("\n")
    if not selection:
        return lines
    return f"{lines}\n\nselected: {plural(samples, 'sample')} by {escape_controls(', '.join(selection))}"


ShownSample = tuple[str, Callable[[], Any], Callable[[], Mapping[str, bytes]]]
"""A sample to show: its heading, and functions that return it and its parts."""


def check_shown(raw: Raw) -> None:
    """Raise a ``SampleError`` for a part that takes too much memory to be decoded only to show it."""
    for member in raw.members if isinstance(raw, RawRow) else [raw]:
        for name, part in limit_parts(member.parts if member else {}, SHOWN_JSON_BYTES).items():
            if isinstance(part, LargePart):
                raise part_error(name, part, ValueError())
            if isinstance(part, bytes) and kind_of_name(name) == "image" and is_too_large_to_show(part):
                limit = f"{most_shown_pixels():,} pixels (or set {PIXEL_LIMIT_VARIABLE})"
                raise SampleError(f"part {name!r} is not shown: expected at most {limit}", part=name)


def dataset_html(text: str, samples: Iterable[ShownSample]) -> str:
    """Return the page of a dataset: its information, and samples with pictures."""
    page = Page()
    page.add(f"<pre>{escaped(text)}</pre>")
    for title, load, parts in samples:
        # One sample that fails must not hide the others.
        try:
            add_sample(page, load(), title=title)
        except TrustError as error:
            add_sample(page, parts(), title=f"{title}   shown as parts: {error.message}")
        except Exception as error:  # noqa: BLE001 - the dataset's own code may raise anything
            page.add(f"<p><b>{escaped(title)}</b></p><pre>{escaped(error_text(error))}</pre>")
    return page.text()
