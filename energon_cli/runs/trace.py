"""``energon trace``: which samples a step of a training run used, after the fact."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from ..command import energon_command
from ..dataset_path import check_path
from .options import plan_run, run_options

__all__ = ["trace"]

_EXAMPLES = (
    ("List the samples of step 41,200", "energon trace /data/mix.yaml --step 41200 --batch-size 8 --world-size 64"),
    ("Those of one rank, as JSON lines", "energon trace /data/mix.yaml --step 41200 --rank 3 --world-size 8 --json"),
    ("Find the steps that used a sample", "energon trace /data/mix.yaml --key shard_000.tar/17 --steps 1000"),
)


@energon_command("trace", examples=_EXAMPLES, short_help="List the samples of a training step.")
@click.argument("path")
@click.option("--step", metavar="N", type=click.IntRange(min=0), multiple=True, help="The step, from 0.  [repeatable]")
@click.option("--rank", metavar="R", type=click.IntRange(min=0), multiple=True, help="Only this rank.  [repeatable]")
@click.option("--key", metavar="KEY", help="List the steps that used this sample.")
@click.option(
    "--steps",
    metavar="N",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Steps in which --key is searched.",
)
@run_options
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each sample.")
def trace(
    path: str,
    *,
    step: tuple[int, ...],
    rank: tuple[int, ...],
    key: str | None,
    steps: int,
    as_json: bool,
    **options: Any,
) -> None:
    """List the samples of a step of a training run on the dataset or metadataset at PATH, for all ranks.

    Nothing needs to be logged: the order of samples is a function of the arguments of the run, which are given here. A
    step is one micro-batch on each rank, counted from 0 at the beginning of the run. After a restart on another number
    of ranks, steps count as if the run had always had that number; a restored run keeps its number of lanes (--lanes;
    energon checkpoint info shows it).

    Hooks that skip, pack or generate samples shift what follows, and are not considered.
    """
    from loader.errors import escape_controls
    from loader.inspect.runs import steps_of_key, trace_step

    from ..console import print_json

    if bool(step) == (key is not None):
        raise click.UsageError("Pass --step, or --key.")
    run = plan_run(check_path(path), **options)
    if key is not None:
        found = sorted(steps_of_key(run, key, steps=steps), key=lambda one: (one.step, one.rank, one.position))
    else:
        found = [sample for number in step for sample in trace_step(run, number, ranks=rank or None)]
    for sample in found:
        if as_json:
            print_json(asdict(sample), in_one_line=True)
        else:
            where = f"step {sample.step}  rank {sample.rank}  {sample.position}"
            click.echo(f"{where}  {escape_controls(sample.key)}  {escape_controls(sample.dataset)}")
