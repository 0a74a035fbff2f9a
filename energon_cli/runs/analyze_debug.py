"""``energon analyze-debug``: how the samples of a run are spread over its steps, from its logs or its arguments."""

from __future__ import annotations

from typing import Any

import click

from ..command import energon_command
from ..dataset_path import check_path
from .options import plan_run, run_options

__all__ = ["analyze_debug"]

_EXAMPLES = (
    ("Draw which samples a logged run used at which step", "energon analyze-debug /data/run/debug"),
    ("Without logs, from the arguments of the run", "energon analyze-debug --dataset /data/mix.yaml --batch-size 8"),
    ("Count only", "energon analyze-debug /data/run/debug --no-heatmap --json"),
)


@energon_command("analyze-debug", examples=_EXAMPLES, short_help="Draw which samples a run used at which step.")
@click.argument("log_paths", nargs=-1, metavar="[LOG_PATHS]…")
@click.option("--dataset", metavar="PATH", help="Trace a run on this dataset or metadataset, instead of reading logs.")
@click.option(
    "--steps", metavar="N", type=click.IntRange(1), default=1000, show_default=True, help="Steps of --dataset."
)
@click.option("--heatmap-path", metavar="PNG", default="heatmap.png", show_default=True, help="Picture to write.")
@click.option("--no-heatmap", is_flag=True, help="Write no picture.")
@click.option(
    "--heatmap-steps",
    metavar="N",
    type=click.IntRange(1, 20_000),
    default=1000,
    show_default=True,
    help="Width at most, in pixels.",
)
@click.option(
    "--heatmap-samples",
    metavar="N",
    type=click.IntRange(1, 20_000),
    default=1000,
    show_default=True,
    help="Height at most, in pixels.",
)
@click.option("--force-loader-id", metavar="N", type=click.IntRange(0), help="Number of the loader in the logs.")
@click.option(
    "--include-modality",
    metavar="A,B",
    default="train",
    show_default=True,
    help="Kinds of loaders in the logs: train, val.",
)
@run_options
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def analyze_debug(
    log_paths: tuple[str, ...],
    *,
    dataset: str | None,
    steps: int,
    heatmap_path: str,
    no_heatmap: bool,
    heatmap_steps: int,
    heatmap_samples: int,
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
    often. A good shuffle looks like noise; a diagonal is the order of the shards.
    """
    from loader.inspect.runs import choose_loader, read_debug_log, traced_uses

    from ..console import print_json, show_note

    if bool(log_paths) == (dataset is not None):
        raise click.UsageError("Pass LOG_PATHS, or --dataset.")
    loaders: list[dict[str, Any]] = []
    if dataset is not None:
        uses = traced_uses(plan_run(check_path(dataset), **options), steps)
    else:
        modalities = tuple(name.strip() for name in include_modality.split(","))
        if unknown := set(modalities) - {"train", "val"}:
            raise click.BadParameter(f"expected train or val, found {min(unknown)!r}", param_hint="--include-modality")
        found = read_debug_log(log_paths)
        chosen = choose_loader(found, modalities=modalities, number=force_loader_id)
        uses = chosen.uses()
        loaders = [
            {
                "loader": one.number,
                "start": one.start,
                "modality": one.modality or None,
                "paths": one.paths,
                "ranks": sorted(one.ranks),
                "uses": len(one.keys),
                "analyzed": one is chosen,
            }
            for one in found
        ]
    facts = uses.facts()
    if not no_heatmap:
        _write(heatmap_path, uses.picture(width=heatmap_steps, height=heatmap_samples))
    if as_json:
        print_json({**facts, "loaders": loaders, "heatmap": None if no_heatmap else heatmap_path})
    else:
        _show(facts, loaders)
        if not no_heatmap:
            show_note(f"wrote {heatmap_path}")


def _show(facts: dict[str, Any], loaders: list[dict[str, Any]]) -> None:
    from loader.errors import escape_controls
    from loader.inspect import plural

    for one in loaders:
        mark = "*" if one["analyzed"] else " "
        start = f", start {one['start']}" if one["start"] else ""
        paths = escape_controls(", ".join(one["paths"]))
        counts = f"{plural(len(one['ranks']), 'rank')}, {one['uses']:,} samples"
        click.echo(f"{mark} {one['loader']}: {one['modality'] or 'unknown'}{start}, {counts}, {paths}")
    click.echo(f"Found {facts['unique']:,} unique sample keys, {facts['steps']:,} steps")
    click.echo(
        f"{facts['uses']:,} samples; {facts['repeated']:,} were used more than once, "
        f"at most {facts['most_uses']:,} times"
    )
    if facts["correlation"] is not None:
        click.echo(
            f"correlation of step and place in the data: {facts['correlation']:.2f} (near 0 is shuffled, 1 is in order)"
        )


def _write(path: str, content: bytes) -> None:
    from loader.errors import StorageError

    try:
        with open(path, "wb") as file:
            file.write(content)
    except OSError as error:
        raise StorageError(f"cannot write: {error.strerror}", path=path, hint="name another --heatmap-path") from error
