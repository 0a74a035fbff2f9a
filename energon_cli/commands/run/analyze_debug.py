"""``energon analyze-debug``: how the samples of a run are spread over its steps, from its logs or its arguments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from loader.errors import escape_controls, plural

from ...command import energon_command
from ...console import facts_of, linked_text, output_console, print_json, show_note, write_file
from ...dataset_paths import check_path
from ...options import INDEX, flag_option, plan_run, run_options, shared_options
from ...terminal_text import break_between_words

if TYPE_CHECKING:
    from loader.inspect.runs import LoggedLoader


_PIXELS: dict[str, Any] = {"metavar": "N", "type": click.IntRange(1, 20_000), "default": 1000}


@energon_command("analyze-debug")
@click.argument("log_paths", nargs=-1, metavar="[LOG_PATHS]…")
@click.option("--dataset", metavar="PATH", help="Trace a run on this dataset or metadataset, instead of reading logs.")
@shared_options("steps", default=1000, help="Trace this many steps of --dataset.")
@click.option("--heatmap-path", metavar="PNG", default="heatmap.png", help="Write the picture to this file.")
@flag_option("--no-heatmap", help="Write no picture.")
@click.option("--heatmap-steps", **_PIXELS, help="Limit the picture's width in pixels.")
@click.option("--heatmap-samples", **_PIXELS, help="Limit the picture's height in pixels.")
@click.option(
    "--heatmap-gain",
    metavar="X",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    help="Multiply the brightness of the picture.",
)
@flag_option("--no-colors", help="Draw all ranks in grey.")
@click.option("--skip", **INDEX, default=0, help="Omit the first N steps.")
@flag_option(
    "--force-loading-order",
    help="Show what workers read from the shards, before shuffling; it needs logs of megatron-energon.",
)
@shared_options("step", "key")
@click.option("--force-loader-id", **INDEX, help="Read the loader with this number in the logs.")
@click.option(
    "--include-modality", metavar="A,B", default="train", help="Read logs of these kinds of loaders: train, val."
)
@run_options
@shared_options("json")
def analyze_debug(
    log_paths: tuple[str, ...],
    *,
    dataset: str | None,
    steps: int,
    heatmap_path: str,
    no_heatmap: bool,
    heatmap_steps: int,
    heatmap_samples: int,
    heatmap_gain: float,
    no_colors: bool,
    skip: int,
    force_loading_order: bool,
    step: tuple[int, ...],
    key: str | None,
    force_loader_id: int | None,
    include_modality: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Show how the samples of a run are spread over its steps: counts, and a picture.

    LOG_PATHS are the files that loaders write at worker_debug_path, with worker_log_level=1, or folders of them, as
    this library and megatron-energon write them. With --dataset, no logs are needed: the arguments of the run give the
    samples of each step, as energon trace lists them.

    In the picture, steps go from left to right and samples, sorted, from top to bottom; a brighter point was used more
    often, and each rank has a colour. A good shuffle looks like noise; a diagonal is the order of the shards.

    With --step or --key, the samples of the logged micro-batches are listed instead.

    Examples:
        Draw which samples a logged run used at which step:
            energon analyze-debug /data/run/debug
        Without logs, from the arguments of the run:
            energon analyze-debug --dataset /data/mix.yaml --batch-size 8
        List the samples of a step:
            energon analyze-debug /data/run/debug --step 41200
        Count only:
            energon analyze-debug /data/run/debug --no-heatmap --json
    """
    from loader.inspect.runs import choose_loader, log_files, read_debug_log, read_loading_order, traced_uses

    # Refuse options that do not fit together.
    if bool(log_paths) == (dataset is not None):
        raise click.UsageError("Pass LOG_PATHS, or --dataset.")
    lists = bool(step) or key is not None
    if lists and (dataset is not None or force_loading_order):
        raise click.UsageError("--step and --key list what a log has. energon trace lists the samples of a dataset.")
    if force_loading_order and dataset is not None:
        raise click.UsageError("--force-loading-order needs LOG_PATHS.")
    # Take the uses of samples from the arguments of a run, from reads of workers, or from the log of a loader.
    logged: Sequence[LoggedLoader] = ()
    chosen = None
    if dataset is not None:
        uses = traced_uses(plan_run(check_path(dataset), **options), steps, skip=skip)
    elif force_loading_order:
        uses = read_loading_order(log_paths, skip=skip)
    else:
        modalities = _modalities(include_modality)
        logged = read_debug_log(log_paths)
        chosen = choose_loader(logged, modalities=modalities, number=force_loader_id)
        if lists:
            _list(chosen, step, key, as_json=as_json)
            return
        uses = chosen.uses(skip=skip)
    # Count them, and draw them.
    loaders = [_loader_document(loader, analyzed=loader is chosen) for loader in logged]
    facts = uses.facts()
    if not no_heatmap:
        picture = uses.picture(width=heatmap_steps, height=heatmap_samples, gain=heatmap_gain, colors=not no_colors)
        write_file(heatmap_path, picture, hint="name another --heatmap-path")
    # Report.
    if as_json:
        print_json({**facts, "loaders": loaders, "heatmap": None if no_heatmap else heatmap_path})
    else:
        if logged:
            click.echo(f"Analyzing {plural(sum(len(log_files(path)) for path in log_paths), 'log')}")
        _show(facts, loaders)
        if not no_heatmap:
            show_note(f"wrote {heatmap_path}")


def _modalities(names: str) -> tuple[str, ...]:
    modalities = tuple(name.strip() for name in names.split(","))
    if unknown := set(modalities) - {"train", "val"}:
        raise click.BadParameter(f"expected train or val, found {min(unknown)!r}", param_hint="--include-modality")
    return modalities


def _loader_document(loader: LoggedLoader, *, analyzed: bool) -> dict[str, Any]:
    return facts_of(
        loader,
        "loader=number start modality paths ranks uses=samples analyzed",
        modality=loader.modality or None,
        ranks=sorted(loader.ranks),
        analyzed=analyzed,
    )


def _list(loader: LoggedLoader, steps: Sequence[int], key: str | None, *, as_json: bool) -> None:
    """List the samples of steps, or the uses of a sample, in the order of steps and ranks."""
    uses = [
        facts_of(batch, "step rank position key", position=position, key=name)
        for batch in sorted(loader.batches)
        if not steps or batch.step in steps
        for position, name in enumerate(batch.keys)
        if key in (None, name)
    ]
    if not uses:
        last = max(batch.step for batch in loader.batches)
        show_note(f"no sample; the log has the steps up to {last:,}")
    for use in uses:
        if as_json:
            print_json(use, in_one_line=True)
        else:
            click.echo(f"step {use['step']}  rank {use['rank']}  {use['position']}  {escape_controls(str(use['key']))}")


def _show(facts: dict[str, Any], loaders: list[dict[str, Any]]) -> None:
    for loader in loaders:
        mark = "*" if loader["analyzed"] else " "
        start = f", start {loader['start']}" if loader["start"] else ""
        paths = ", ".join(linked_text(path, path) for path in loader["paths"])
        counts = f"{plural(len(loader['ranks']), 'rank')}, {plural(loader['uses'], 'sample')}"
        line = f"{mark} {loader['loader']}: {loader['modality'] or 'unknown'}{start}, {counts}, {paths}"
        click.echo(break_between_words(line, sys.stdout))
    console = output_console()
    console.print(f"Found {plural(facts['unique'], 'unique sample key')}, {plural(facts['steps'], 'step')}")
    console.print(
        f"{plural(facts['uses'], 'sample')}; {plural(facts['repeated'], 'was', 'were')} used more than once, "
        f"at most {plural(facts['most_uses'], 'time')}"
    )
    if facts["correlation"] is not None:
        console.print(
            f"correlation of step and place in the data: {facts['correlation']:.2f} (near 0 is shuffled, 1 is in order)"
        )
