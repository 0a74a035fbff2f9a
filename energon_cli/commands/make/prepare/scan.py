"""Scan the shards of ``energon prepare`` in the background of its first questions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click

from loader.inspect import ShardFolder, contents_of_scan
from loader.prepare import PreparePlan, PrepareProgress, RunningPrepare, open_prepare

from ....console import show_note
from ....engine_options import EngineChoice
from ....progress import ProgressBar
from ....settings import output_settings

_PERIOD_S = 0.05  # between two updates of the progress bar


class BackgroundScan:
    """A scan whose result is needed later. On a terminal, it runs in a thread while the user is prompted."""

    def __init__(self, folder: ShardFolder, plan: PreparePlan, *, inspects: bool) -> None:
        self._reports_resumed = output_settings().progress is not False and not plan.merge
        self._folder = folder
        self._inspects = inspects
        self._now: PrepareProgress | None = None
        self._bar: ProgressBar | None = None
        self._is_done = False
        self.stopped = threading.Event()  # by the user
        self._scan: Future[None] | None = None  # in a thread
        self.prepare: RunningPrepare

    @property
    def part_sets(self) -> list[dict[str, Any]]:
        self.wait()
        return self.prepare.index.part_sets().to_document()

    def note(self, now: PrepareProgress) -> None:
        """Show progress, or keep it while another thread shows it."""
        if now.resumed and self._reports_resumed:
            verb = "shard was" if now.resumed == 1 else "shards were"
            show_note(f"resumed: {now.resumed:,} {verb} already scanned")
        self._now = now
        if self._scan is None:
            self._show()

    def _show(self) -> None:
        if self._bar is None or self._now is None:
            return
        if self._now.phase == "media":
            self._bar.update(self._now.samples, self._now.samples_total)
        else:
            self._bar.update(self._now.shards_done, self._now.shards_total)

    def start(self, prepare: RunningPrepare, *, in_thread: bool) -> None:
        """Begin to take the results of the workers, in a thread or when they are waited for."""
        self.prepare = prepare
        if in_thread:
            self._scan = ThreadPoolExecutor(1, "scan").submit(prepare.scan)

    def wait(self) -> ShardFolder:
        """Wait for the scan; return the folder with what its samples contain."""
        if self._is_done:
            return self._folder
        with self.showing("Scanning headers", unit="shards"):
            if self._scan is None:
                self.prepare.scan()
            else:
                while not self._scan.done():
                    wait([self._scan], _PERIOD_S)
                    self._show()
                done, self._scan = self._scan, None
                done.result()
        if self._inspects:
            self._folder = replace(self._folder, contents=contents_of_scan(self.prepare))
        self._is_done = True
        return self._folder

    @contextmanager
    def showing(self, what: str, *, unit: str) -> Iterator[None]:
        with ProgressBar(what, unit=unit) as self._bar:
            yield
        self._bar = None

    def stop(self) -> None:
        """End the scan; what was scanned is kept for the next run."""
        self.stopped.set()
        if self._scan is not None:
            wait([self._scan])


@contextmanager
def begin_scan(
    plan: PreparePlan,
    folder: ShardFolder,
    *,
    inspects: bool,  # samples, because a sample type is proposed or checked
    is_trial: bool,  # writes nothing next to the shards
    in_thread: bool,  # while this thread prompts
    engine: EngineChoice,
) -> Iterator[BackgroundScan]:
    """Begin to scan the shards of a folder; leaving the context ends the scan."""
    # Open the prepare, whose workers scan.
    scan = BackgroundScan(folder, plan, inspects=inspects)
    with (
        engine.open() as opened,
        open_prepare(
            plan,
            on_progress=scan.note,
            engine=replace(opened, is_stopped=scan.stopped.is_set if in_thread else None),
            storage=folder.storage,
            inspects=inspects,
            is_trial=is_trial,
        ) as prepare,
    ):
        # Let the command run meanwhile. If the user leaves, what was scanned is dropped; after an error, it is kept.
        try:
            scan.start(prepare, in_thread=in_thread)
            yield scan
        except click.exceptions.Exit:  # the user leaves
            scan.stop()
            prepare.discard()
            raise
        finally:
            scan.stop()
