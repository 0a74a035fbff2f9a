"""``energon explain``: what a training run will read, before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from loader.errors import escape_controls, plural
from loader.inspect import format_bytes, format_percent

from ...command import energon_command
from ...console import output_console, print_json
from ...dataset_paths import check_path
from ...options import RUN_OPTIONS, plan_run, run_options, shared_options

if TYPE_CHECKING:
    from loader.inspect.runs import RunFacts


_MAX_STRETCHES = 20  # of a table
_DEFAULTS = {"shuffle_buffer_size": 1000, "max_samples_per_sequence": 100}  # of get_train_dataset


@energon_command("explain")
@click.argument("path")
@shared_options("steps", help="Explain this many steps.  [default: 1000, or an epoch without options of a run]")
@shared_options("packing_buffer_size", help="Let this many samples wait in each lane, if the run packs.")
@run_options
@shared_options("json")
@click.pass_context
def explain(context: click.Context, /, path: str, *, steps: int | None, as_json: bool, **options: Any) -> None:
    """Show what a run of N steps reads of the dataset or metadataset at PATH: shares, epochs, memory and shuffling.

    A step is one micro-batch on each rank. The counts come from the function that orders the samples of the run;
    no sample is read. Hooks that skip, pack or generate samples are not considered.

    Without numbers of the run, an epoch is shown: each sample once, on one rank with the defaults of the loaders.

    The exit code is 1 if numbers describe a run and there are findings: datasets that are reached twice or never, that
    repeat many times or have fewer samples than a step or the lanes need, workers without a lane, and poor shuffling.

    Examples:
        Show an epoch of a dataset:
            energon explain /data/coco
        Show what 10,000 steps of a mix read:
            energon explain /data/mix.yaml --steps 10000 --batch-size 8
        With the shuffling of the run:
            energon explain /data/mix.yaml --batch-size 8 --shuffle-buffer-size 10000
        Check a mix in a script:
            energon explain /data/mix.yaml --steps 10000 --batch-size 8 --json
    """
    from loader.inspect.runs import explain_run

    numbers = {"steps", "packing_buffer_size", *RUN_OPTIONS} - {"split_part", "filter_name"}
    is_described = any(context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT for name in numbers)
    run = plan_run(check_path(path), **options if is_described else {**options, **_DEFAULTS})
    facts = explain_run(run, steps or (1000 if is_described else run.epoch_steps))
    if as_json:
        print_json(facts)
    else:
        _show(facts, output_console())
    if facts.findings and is_described:
        raise click.exceptions.Exit(1)


def _show(facts: RunFacts, console: Any) -> None:
    from rich.text import Text

    from loader.inspect import print_table

    # The datasets, with the shares that they have.
    console.print(
        f"{plural(facts.steps, 'step')} of {plural(facts.batch_samples, 'sample')}: {plural(facts.samples, 'sample')}"
    )
    rows = [
        (
            source.path,
            f"{source.samples:,}",
            format_percent(source.share_asked),
            format_percent(source.share_got),
            f"{source.epochs:.2f}",
            "–" if source.exhausted_at is None else f"{source.exhausted_at:,}",
            format_bytes(source.bytes_read),
        )
        for source in facts.sources
    ]
    print_table(console, ("dataset", ">samples", ">asked", ">got", ">epochs", ">used up at step", ">bytes"), rows)
    for note in facts.notes:
        console.print(escape_controls(note))
    if facts.stretches:
        _show_stretches(facts, console)
    # Amounts of columns, such as tokens, by dataset.
    for name in sorted({name for source in facts.sources for name in source.amounts}):
        known = [source for source in facts.sources if name in source.amounts]
        amounts = "; ".join(f"{escape_controls(source.path)} {source.amounts[name]:,.0f}" for source in known)
        console.print(f"{name}: {sum(source.amounts[name] for source in known):,.0f} ({amounts})")
    # Memory, shuffling and reads.
    buffers = f", {format_bytes(facts.buffer_bytes)} in packing buffers" if facts.buffer_bytes else ""
    cached = f"; cache of a node: {format_bytes(facts.cache_bytes)}" if facts.cache_bytes else ""
    console.print(
        f"memory of a rank: {format_bytes(facts.queue_bytes)} of waiting batches before decoding, "
        f"{format_bytes(facts.read_ahead_bytes)} read ahead{buffers}{cached}"
    )
    shares = (facts.shard_share, facts.random_shard_share, facts.largest_shard_share)
    shard, random, largest = map(format_percent, shares)
    console.print(
        f"shuffling: mixing {facts.mixing:.2f} (1 is random); a shard has {shard} of a micro-batch "
        f"({random} is random), at most {largest}"
    )
    for storage in facts.storages:
        console.print(
            f"reads from {storage.storage}: {plural(storage.files, 'file')},"
            f" about {plural(storage.requests, 'request')}, {format_bytes(storage.bytes)}"
        )
    # The ranks that a state restores on, and what may go wrong.
    ranks = ", ".join(map(str, facts.ranks)) + (" rank" if facts.ranks == (1,) else " ranks")
    console.print(f"{plural(facts.lanes, 'lane')}: a state restores on {ranks}, with any number of workers each")
    for finding in facts.findings:
        console.print(Text(f"{finding.kind}: {escape_controls(finding.message)}", style="yellow"))
        console.print(Text(f"  {finding.hint}"))


def _show_stretches(facts: RunFacts, console: Any) -> None:
    """Print the shares of each dataset in the stretches of a run whose weights change."""
    from loader.inspect import print_table

    changes = plural(len(facts.stretches) - 1, "time")
    console.print(f"the weights change {changes}; shares asked → got from step to step:")
    shown = list(facts.stretches)
    if len(shown) > _MAX_STRETCHES:
        shown = [*shown[: _MAX_STRETCHES - 1], shown[-1]]
    rows: list[tuple[str, ...]] = []
    for row, stretch in enumerate(shown):
        if row == len(shown) - 1 and len(shown) < len(facts.stretches):
            rows.append(("…",))
        shares = [format_percent(share) if any(stretch.used) else "–" for share in stretch.shares_got]  # – of no sample
        first, end = (f"{step:,.10g}" for step in stretch.steps)
        changed = zip(stretch.shares_asked, shares, strict=True)
        rows.append((f"{first} – {end}", *(f"{format_percent(asked)} → {got}" for asked, got in changed)))
    print_table(console, (">steps", *(f">{escape_controls(source.path)}" for source in facts.sources)), rows)
