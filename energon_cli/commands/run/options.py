"""Options that describe a training run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...options import shared_options

if TYPE_CHECKING:
    from loader.inspect.runs import PlannedRun

F = TypeVar("F", bound=Callable[..., Any])


def run_options(function: F) -> F:
    """Add the options that :func:`plan_run` takes."""
    for add in (
        shared_options("trust_code"),
        shared_options("filter", help="Filter of every dataset: filter_name=."),
        shared_options("seed", help="Seed of the run: seed_offset=."),
        click.option("--lanes", metavar="L", type=click.IntRange(min=1), help="Number of lanes, of a restored run."),
        click.option("--max-samples-per-sequence", metavar="N", type=click.IntRange(min=1), help="Length of a slice."),
        click.option("--shuffle-buffer-size", metavar="N", type=click.IntRange(min=0), help="Samples shuffled freely."),
        shared_options("split_part", default="train", show_default=True, help="Part of the split."),
        shared_options(
            "num_workers", metavar="W", type=click.IntRange(min=0), default=0, show_default=True, help="Of a rank."
        ),
        click.option(
            "--world-size", metavar="R", type=click.IntRange(min=1), default=1, show_default=True, help="Ranks."
        ),
        click.option(
            "--batch-size",
            metavar="B",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="Samples of a micro-batch.",
        ),
    ):
        function = add(function)
    return function


RUN_OPTIONS = (
    "batch_size",
    "world_size",
    "num_workers",
    "split_part",
    "shuffle_buffer_size",
    "max_samples_per_sequence",
    "lanes",
    "seed",
    "filter_name",
)
"""The parameters of these options that a checkpoint has."""


def plan_run(path: str, *, seed: int, **options: Any) -> PlannedRun:
    """Return the run that the options describe."""
    from loader.inspect.runs import PlannedRun, RunRequest

    lanes, ranks = options["lanes"], options["world_size"]
    if lanes is not None and lanes % ranks:
        raise click.BadParameter(f"expected a multiple of --world-size {ranks}, found {lanes}", param_hint="--lanes")
    return PlannedRun(RunRequest(path=path, seed_offset=seed, **options))
