"""``energon plan``: what each step of a planned run costs on its ranks, before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from loader.errors import escape_controls, plural
from loader.inspect import format_bytes, format_percent

from ...command import energon_command
from ...console import output_console, print_json
from ...dataset_paths import check_path
from ...options import NUMBER, Parsed, check_lanes, plan_options, run_options_of, shared_options, take_planning

if TYPE_CHECKING:
    from loader.inspect.runs import CostFacts, PlannedSteps, StepRatios

_DEFAULTS = {"shuffle_buffer_size": 1000, "max_samples_per_sequence": 100}  # of get_train_dataset


@energon_command("plan")
@click.argument("path")
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@plan_options
@shared_options("steps", help="Plan N steps.  [default: an epoch]")
@run_options_of(
    Parsed("loader.inspect.runs", "parse_ranks"),
    default=None,
    text="Plan for N ranks.  [default: 1, or the script's]",
)
@click.option("--ranks-of-node", **NUMBER, default=8, help="Put this many ranks on each machine.")
@shared_options("json")
def plan(
    path: str,
    *,
    arguments: tuple[str, ...],
    steps: int | None,
    world_size: tuple[int, ...] | None,
    seed: int,
    ranks_of_node: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what the steps of a run on PATH cost on each rank, with a plan and without: imbalance, fill and padding.

    PATH is a dataset, a metadataset or a training script. Costs are columns, or formulas over columns; no sample is
    read. A step is as slow as its rank with the largest micro-batch: the ratio of that to the mean is the time that a
    run takes, relative to equal work. The bound is what no plan can go below, because of the largest sample of a step.

    A script runs in a process of its own up to its first loader, with the arguments ARGS; the options that describe a
    run come from it, but for --world-size, --ranks-of-node and --steps.

    Examples:
        Balance micro-batches of 16 samples:
            energon plan /data/coco --batch-size 16 --world-size 64 --balance tokens
        Compare numbers of ranks:
            energon plan /data/mix.yaml --packing best_fit --pack-capacity tokens=8192 --world-size 64,128,256
        Plan the run of a script:
            energon plan /data/train.py --world-size 64
        Check the plan in a script:
            energon plan /data/coco --batch-cost tokens=16384 --world-size 64 --json
    """
    from loader.inspect.runs import RunRequest, plan_script, plan_steps

    # A script has the arguments of its run; otherwise the options have.
    if path.endswith(".py"):
        facts = plan_script(path, arguments, ranks=world_size or (), steps=steps, ranks_of_node=ranks_of_node)
    else:
        if arguments:
            raise click.UsageError("Arguments are for scripts (.py); PATH is a dataset.")
        planning = take_planning(options)
        if not {"balance", "packing", "batch_cost"} & set(planning):
            raise click.UsageError("Name what is planned: --balance, --packing with --pack-capacity, or --batch-cost.")
        world_size = world_size or (1,)
        for ranks in world_size:
            check_lanes(options["lanes"], ranks)
        defaults = {name: value for name, value in _DEFAULTS.items() if options[name] is None}
        request = RunRequest(path=check_path(path), seed_offset=seed, planning=planning, **options | defaults)
        facts = plan_steps(request, ranks=world_size, steps=steps, ranks_of_node=ranks_of_node)
    if as_json:
        print_json(facts)
    else:
        _show(facts, output_console())


def _show(facts: PlannedSteps, console: Any) -> None:
    from loader.inspect import print_table, requests_text

    # The costs of a step, for each number of ranks.
    first = facts.steps[0]
    window = ("sampled windows" if first.is_sampled else "all windows") + f" of {plural(first.window, 'sample')}"
    window += ", ± 95 %" if first.is_sampled else ""
    samples = f"{first.micro_batch_samples:,.1f}"
    console.print(f"{plural(first.steps, 'step')}, samples of a micro-batch: {samples} on average ({window})")
    rows = [_row(of_ranks.ranks, cost) for of_ranks in facts.steps for cost in of_ranks.costs]
    packed = first.costs[0].planned.fill is not None
    columns = ("ranks", "cost", ">of a micro-batch", ">max/mean", ">p99", ">worst", ">bound", ">without a plan", ">p99")
    print_table(console, (*columns, ">fill" if packed else ">padding", ">without"), rows)
    # Samples that no plan can level.
    for cost in first.costs:
        if cost.heavy:
            console.print(
                f"{format_percent(cost.heavy)} of the samples cost more {escape_controls(cost.name)} than a mean "
                "micro-batch, which no plan can level"
            )
    # Shares, repeats and reads, as energon explain counts them.
    if facts.run is not None:
        table = []
        for source in facts.run.sources:
            used_up = "–" if source.exhausted_at is None else f"{source.exhausted_at:,}"
            share = format_percent(source.share_got)
            table.append((source.path, f"{source.samples:,}", share, f"{source.epochs:.2f}", used_up))
        print_table(console, ("dataset", ">samples", ">share", ">epochs", ">used up at step"), table)
        console.print(f"a node reads {format_bytes(facts.node_bytes or 0)}")
    if facts.hub_requests is not None:
        console.print(f"requests to the hub: {requests_text(facts.hub_requests)}")


def _row(ranks: int, cost: CostFacts) -> tuple[str, ...]:
    return (
        f"{ranks:,}",
        escape_controls(cost.name),
        f"{cost.micro_batch:,.0f}",
        _mean(cost.planned),
        f"{cost.planned.p99:.3f}",
        f"{cost.planned.worst:.3f}",
        f"{cost.bound:.3f}",
        _mean(cost.unplanned),
        f"{cost.unplanned.p99:.3f}",
        *(format_percent(each.fill or each.padding or 0) for each in (cost.planned, cost.unplanned)),
    )


def _mean(ratios: StepRatios) -> str:
    return f"{ratios.mean:.3f}" + (f" ± {ratios.interval:.3f}" if ratios.interval else "")
