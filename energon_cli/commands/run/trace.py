"""``energon trace``: which samples a step of a training run used, after the fact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from loader.errors import escape_controls

from ...command import energon_command
from ...console import json_line, linked_text, show_note
from ...dataset_paths import check_path
from ...options import PLAN_OPTIONS, RUN_OPTIONS, flag_option, plan_options, plan_run, run_options, shared_options
from ...terminal_text import break_between_words

if TYPE_CHECKING:
    from loader.inspect.runs import RestoredRun, TracedSample


@energon_command("trace")
@click.argument("path")
@shared_options("step")
@click.option(
    "--rank", metavar="N", type=click.IntRange(min=0), multiple=True, help="List only this rank.  [repeatable]"
)
@shared_options("key")
@shared_options("steps", help="Search this many steps for --key.  [default: the steps of the checkpoint, or 1000]")
@click.option(
    "--dataset", metavar="PATH", help="Read this data, if the checkpoint mixes datasets or the data were moved."
)
@shared_options("task_encoder")
@shared_options("packing_buffer_size", help="Set the packing buffer of the run, which a checkpoint knows.")
@flag_option("--replay", help="Rebuild the micro-batches, and show their fields.")
@click.option("-o", "--output", metavar="FILE", help="Write what --replay rebuilds to this file, by torch.save.")
@flag_option("--open", "opens", help="Show the samples in the browser, which needs the extra browse.")
@run_options
@plan_options
@shared_options("json", help="Print a line of JSON for each sample.")
@click.pass_context
def trace(
    context: click.Context,
    /,
    path: str,
    *,
    step: tuple[int, ...],
    rank: tuple[int, ...],
    key: str | None,
    steps: int | None,
    replay: bool,
    output: str | None,
    opens: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """List the samples of a step of a training run, for all ranks.

    PATH is a checkpoint, which has the arguments of the run; the folder of a loader's trace_dir; or the dataset or
    metadataset of the run, with its arguments as options. Nothing needs to be logged: the order of samples is a
    function of these arguments.

    A step is one micro-batch on each rank, counted from 0 at the beginning of the run. A checkpoint knows the numbers
    of ranks that the run had, and the steps that it skipped (skip_steps).

    Hooks that skip, pack or generate samples, and samples that fail, shift what follows in their lane. A checkpoint
    shows this; then --task-encoder rebuilds the micro-batches, or a log names their samples.

    Examples:
        List the samples of step 41,200, by a checkpoint:
            energon trace /data/run/step_42000 --step 41200
        Of a mix, name its metadataset:
            energon trace /data/run/step_42000 --dataset /data/mix.yaml --step 41200
        By the arguments of the run:
            energon trace /data/mix.yaml --step 41200 --batch-size 8 --world-size 64 --balance tokens
        Rebuild packs with the hooks of the run:
            energon trace /data/run/step_42000 --task-encoder train:Enc --step 41200
        From the log of a loader with trace_dir=:
            energon trace /data/run/trace --step 41200 --rank 3 --json
        Rebuild the micro-batch:
            energon trace /data/run/step_42000 --step 41200 --rank 3 --replay
        Find the steps that used a sample:
            energon trace /data/run/step_42000 --key shard_000.tar/17
    """
    from loader.inspect.runs import steps_of_key, trace_step

    # Refuse options that do not fit together.
    if bool(step) == (key is not None):
        raise click.UsageError("Pass --step, or --key.")
    if (replay and key is not None) or (output is not None and not replay):
        raise click.UsageError("--replay needs --step, and --output needs --replay.")
    # Find the samples of the steps, or the steps that used a sample.
    run, last = _open(context, path, **options)
    if key is not None:
        uses = steps_of_key(run, key, steps=steps or last)
        samples = sorted(uses, key=lambda use: (use.step, use.rank, use.position))
    else:
        samples = [sample for wanted in step for sample in trace_step(run, wanted, ranks=rank or None)]
    if samples:
        lines = "\n".join(map(json_line if as_json else _line, samples))
        click.echo(lines if as_json else break_between_words(lines, sys.stdout))
    else:
        show_note(f"no sample: {key} is in none of these steps" if key else "no sample")
    # Rebuild the micro-batches, and open the pages of the samples.
    if replay:
        _replay(run, step, rank, output)
    if opens and samples:
        show_samples([(sample.dataset, sample.key) for sample in samples if sample.key])


def _open(
    context: click.Context, path: str, *, dataset: str | None, task_encoder: str | None, **options: Any
) -> tuple[RestoredRun, int]:
    from loader.inspect.runs import RestoredRun, is_run, load_task_encoder, open_run

    # A checkpoint or log has the arguments of its run: refuse them as options.
    encoder = None if task_encoder is None else load_task_encoder(task_encoder)
    if is_run(path):
        given = [
            name
            for name in (*RUN_OPTIONS, *PLAN_OPTIONS, "packing_buffer_size")
            if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        ]
        if given:
            flags = ", ".join(parameter.opts[0] for parameter in context.command.params if parameter.name in given)
            raise click.UsageError(f"{path} has the arguments of the run: drop {flags}.")
        known = open_run(path, dataset=dataset, trust_code=options["trust_code"], task_encoder=encoder)
        return known, max(1, known.steps)
    # Of a dataset, the options are the arguments of the run.
    if dataset is not None:
        raise click.UsageError("--dataset names the data of a checkpoint; PATH is a dataset itself.")
    if encoder is None and options["packing_buffer_size"] is not None:
        raise click.UsageError("--packing-buffer-size needs --task-encoder, whose hooks pack.")
    return RestoredRun.of(plan_run(check_path(path), task_encoder=encoder, **options)), 1000


def _line(sample: TracedSample) -> str:
    where = f"step {sample.step}  rank {sample.rank}  {sample.position}"
    what = "of a dataset that left the mix"
    if sample.key:
        address = f"{sample.dataset}/{sample.key}"
        what = f"{linked_text(sample.key, address)}  {linked_text(sample.dataset, sample.dataset)}"
    return f"{where}  {what}" + ("  (skipped)" if sample.left_out else "")


def _replay(run: RestoredRun, steps: Sequence[int], ranks: Sequence[int], output: str | None) -> None:
    from loader.inspect import describe_value

    made: dict[int, dict[int, Any]] = {}
    for step in steps:
        batches = run.run.steps.batches(step)
        for rank in ranks or range(len(batches)):
            made.setdefault(step, {})[rank] = batch = run.replay(batches[rank])[0]
            if output is None:
                click.echo(f"step {step}  rank {rank}")
                fields = batch if isinstance(batch, dict) else getattr(batch, "__dict__", {"": batch})
                for name, value in fields.items():
                    click.echo(
                        f"  {escape_controls(str(name))}: {escape_controls(describe_value(str(name), value).facts)}"
                    )
    if output is not None:
        import torch

        torch.save(made, output)
        click.echo(f"wrote {output}: step → rank → micro-batch")


# Show traced samples in the web pages of ``energon browse``.


def show_samples(samples: Sequence[tuple[str, str]]) -> None:
    """Serve the pages of samples until Ctrl-C, print their links, and open the first one."""
    paths = list(dict.fromkeys(path for path, _ in samples))
    # Without -P, modules of the working directory, which may be a dataset, would be imported.
    command = [sys.executable, "-P", "-m", "energon_cli", "browse", "--json", "--no-open", *paths]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline() if server.stdout is not None else ""
        if not line:
            raise click.exceptions.Exit(server.wait())
        try:
            links = _links(json.loads(line)["url"], samples)
            for (path, key), link in zip(samples, links, strict=True):
                click.echo(f"{escape_controls(f'{key}  {path}')}\n  {link or 'has no page'}")
            first = next(filter(None, links), None)
            if sys.stdout.isatty() and first is not None:
                click.launch(first)
            show_note("Ctrl-C ends")
            server.wait()
        except KeyboardInterrupt:
            pass  # how a user ends the server, as the note says
        finally:
            server.terminate()


def _links(url: str, samples: Sequence[tuple[str, str]]) -> list[str | None]:
    """Return the links of samples, each with the token; None for a sample without a page."""
    from loader.inspect.browse import page_url

    start = urlsplit(url)
    catalogue = f"{start.scheme}://{start.netloc}/api/catalogue?{start.query}"
    with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(catalogue) as answer:
        names = {dataset["path"]: dataset["name"] for dataset in json.load(answer)["datasets"]}
    links = []
    for path, full_key in samples:
        name = names.get(path if "://" in path else os.path.abspath(path))
        links.append(None if name is None else page_url(url, name, *_shard_and_key(full_key)))
    return links


def _shard_and_key(full_key: str) -> tuple[str, str]:
    """Split the full key of a sample; keys in tar shards may have slashes, too."""
    shard, separator, key = full_key.partition(".tar/")
    if separator:
        return f"{shard}.tar", key
    shard, _, key = full_key.rpartition("/")
    return shard, key
