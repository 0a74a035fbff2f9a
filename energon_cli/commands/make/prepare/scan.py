"""Scan the shards of ``energon prepare`` in the background of its first questions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace

import click

from loader.inspect import ShardFolder, contents_of_scan
from loader.prepare import PreparePlan, PrepareProgress, RunningPrepare, open_prepare

from ....console import show_note
from ....engine_options import EngineChoice
from ....progress import ProgressBar
from ....settings import output_settings


class BackgroundScan:
    """A scan whose result is needed later. On a terminal, it runs in a thread while the user is prompted."""

    def __init__(self, folder: ShardFolder, plan: PreparePlan, *, inspects: bool) -> None:
        self._reports_resumed = output_settings().progress is not False and not plan.merge
        self._folder = folder
        self._inspects = inspects
        self._bar: ProgressBar | None = None
        self._is_done = False
        self.prepare: RunningPrepare
        self.in_thread: Future[None] | None = None  # the scan; None if it runs when it is waited for

    def note(self, now: PrepareProgress) -> None:
        """Show progress, unless the user is prompted."""
        if now.resumed and self._reports_resumed:
            verb = "shard was" if now.resumed == 1 else "shards were"
            show_note(f"resumed: {now.resumed:,} {verb} already scanned")
        bar = self._bar
        if bar is not None and now.phase == "media":
            bar.update(now.samples, now.samples_total)
        elif bar is not None:
            bar.update(now.shards_done, now.shards_total)

    def wait(self) -> ShardFolder:
        """Wait for the scan; return the folder with what its samples contain."""
        if self._is_done:
            return self._folder
        with self.showing("Scanning headers", unit="shards"):
            if self.in_thread is None:
                self.prepare.scan()
            else:
                self.in_thread.result()
        if self._inspects:
            self._folder = replace(self._folder, contents=contents_of_scan(self.prepare))
        self._is_done = True
        return self._folder

    @contextmanager
    def showing(self, what: str, *, unit: str) -> Iterator[None]:
        with ProgressBar(what, unit=unit) as bar:
            self._bar = bar
            try:
                yield
            finally:
                self._bar = None


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
    scan, stopped = BackgroundScan(folder, plan, inspects=inspects), threading.Event()
    with (
        engine.open() as opened,
        open_prepare(
            plan,
            on_progress=scan.note,
            engine=replace(opened, is_stopped=stopped.is_set if in_thread else None),
            storage=folder.storage,
            search=folder.search,
            inspects=inspects,
            is_trial=is_trial,
        ) as prepare,
    ):
        # Let the command run meanwhile. If the user leaves, what was scanned is dropped; after an error, it is kept.
        scan.prepare, leaves = prepare, False
        try:
            if in_thread:
                scan.in_thread = ThreadPoolExecutor(1, "scan").submit(prepare.scan)
            yield scan
        except click.exceptions.Exit:
            leaves = True
            raise
        finally:
            stopped.set()
            wait([] if scan.in_thread is None else [scan.in_thread])
            if leaves:
                prepare.discard()
