"""``energon profile``: run a training script, and show what its loaders wait for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from loader.errors import escape_controls

from ...command import energon_command
from ...console import error_console
from ...options import shared_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loader.inspect import ProfiledLoader

_MIN_SHARE = 0.001


@energon_command("profile", takes_path=False)
@click.argument("script", metavar="SCRIPT")
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@shared_options("steps", default=200, help="Trace this many micro-batches of each loader.")
@click.option("--trace", metavar="FILE", default="trace.json", help="Write the trace to this file, which is replaced.")
@click.option("--stats", metavar="FILE", help="Write the statistics of all loaders to this file as JSON.")
def profile(script: str, *, arguments: tuple[str, ...], steps: int, trace: str, stats: str | None) -> None:
    """Run the Python script SCRIPT with the arguments ARGS, and show where the time of its loaders goes.

    The script runs unchanged, in the same interpreter. Each of its loaders records its first steps. At the end, the
    command shows for each loader, on standard error, what the training loop waited for, what the workers did, and what
    would help. It writes a trace for Perfetto (https://ui.perfetto.dev) or Chrome (about:tracing).

    Options of this command come before SCRIPT; what follows it is passed to the script.

    Exits with the exit code of the script.

    Examples:
        Profile a training script with its own arguments:
            energon profile train.py --epochs 1
        Record more steps, in another file:
            energon profile --steps 1000 --trace /tmp/trace.json train.py
    """
    from loader.inspect import profile_script

    report = profile_script(script, arguments, steps=steps, trace=trace, stats=stats)
    console = error_console()
    lines = [line for loader in report.loaders for line in _lines(loader)]
    lines.append(f"trace: {trace}" if lines else "the script took no micro-batch of a loader")
    for line in lines:
        console.print(escape_controls(line))
    if report.exit_code:
        sys.exit(report.exit_code if report.exit_code > 0 else 128 - report.exit_code)


def _lines(loader: ProfiledLoader) -> Iterator[str]:
    yield f"{loader.name}: {loader.line}"
    elapsed_s = loader.numbers["elapsed_s"]
    for title, group in (("the training loop waited for", "waited_for"), ("the workers spent", "workers")):
        # Times of workers overlap: they are shares of their sum, not of the elapsed time.
        seconds = loader.seconds(group)
        total = elapsed_s if group == "waited_for" else sum(seconds.values())
        shown = [(name, each) for name, each in seconds.items() if total and each / total >= _MIN_SHARE]
        if shown:
            yield f"  {title}"
        for name, each in shown:
            yield f"    {name:<28} {each:>9.3f} s {100 * each / total:>5.1f} %"
    for suggestion in loader.suggestions:
        yield f"  {suggestion}"


profile.context_settings = {**profile.context_settings, "allow_interspersed_args": False}
