"""``energon map``: a user's function over the samples of a dataset."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from loader.errors import error_text, escape_controls, plural

from ...command import energon_command
from ...console import facts_of, output_console, print_json, printing_to_stderr, show_note, show_warning
from ...dataset_options import copy_options, dataset_options
from ...dataset_paths import check_ref, writable
from ...engine_options import ENGINE_PARAMETERS, EngineChoice, engine_options
from ...license_option import license_option
from ...options import NUMBER, flag_option, parse_names, shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.dataset.query import SampleQuery
    from loader.format import DatasetRef
    from loader.mapping import MapReport


_SECONDS: Any = {"metavar": "S", "type": click.FloatRange(min=0.001)}

_MAX_SHOWN = 1000  # characters of a value

_MAX_FAILURES = 10  # that are printed

_SAMPLES_WITH_GPUS = 256  # of a task, which takes longer by a model


@energon_command("map", advanced=(*ENGINE_PARAMETERS, "task_samples", "version", "storage_option", "key_column"))
@click.argument("path", metavar="DATASET", type=click.UNPROCESSED)
@click.argument("function_name", metavar="MODULE:FUNCTION")
@click.option("--write", metavar="A,B", callback=parse_names, help="Write the results to these columns.")
@click.option(
    "--to-filter", metavar="NAME", help="Keep the samples for which the function returns True in this filter."
)
@click.option("--to-parts", metavar="DEST", help="Write the results as new parts, in a dataset next to this one.")
@click.option("--to-dataset", metavar="DEST", help="Write the samples that the function returns to a new dataset.")
@shared_options("batch_size", help="Call the function with lists of N samples.")
@flag_option("--raw", help="Call the function with the bytes of parts, and decode nothing.")
@click.option("--limit", **NUMBER, help="Run over only the first N samples, with --show.")
@flag_option("--show", help="Print the results, and write nothing.")
@shared_options("max_failures", "retry_failed", "gpus_per_worker", "version")
@click.option("--timeout", **_SECONDS, help="Count a call that takes longer as a failure.")
@click.option("--start-timeout", **_SECONDS, default=1800, help="Limit the time in which a class is instantiated.")
@click.option("--task-samples", **NUMBER, help="Limit each task to this many samples.  [default: 4096; 256 with GPUs]")
@copy_options
@license_option("to_dataset")
@engine_options
@dataset_options("dataset_config", "trust_code")
@shared_options("json", "progress")
def map_dataset(
    ref: DatasetRef,
    *,
    function_name: str,
    limit: int | None,
    show: bool,
    timeout: float | None,
    gpus_per_worker: float,
    version: str,
    task_samples: int | None,
    query: SampleQuery,
    engine: EngineChoice,
    as_json: bool,
    **options: Any,
) -> None:
    """Run your own function over the samples of DATASET, and keep what it returns.

    FUNCTION is called with each sample, decoded as in training; with --batch-size, with lists of samples. A class is
    instantiated once in each worker, which is where a model is loaded, and the instance is called. MODULE is a module
    of the working folder, an installed one, or a .py file.

    Results become columns (--write: numbers, texts, vectors), a filter (--to-filter: True or False), new parts
    (--to-parts), or a new dataset (--to-dataset: none, one or several samples for each).

    Finished tasks stay: after an interruption, the same command continues. If more samples fail than --max-failures,
    nothing is written, a file lists them, and --retry-failed runs their tasks again. Samples that fail, that are not
    chosen or that are excluded have no value.

    Examples:
        Try a function on three samples, also of a single file:
            energon map /data/coco quality:score --limit 3 --show
        Keep a score of each sample as a column:
            energon map /data/coco quality:score --write score
        Caption pictures by a model, on two GPUs:
            energon map /data/coco captions:Captioner --batch-size 32 --gpus-per-worker 1 --to-parts /data/coco-captions
        Keep the samples that a function accepts in a filter:
            energon map /data/coco quality:is_good --to-filter good
        Resize pictures into a new dataset:
            energon map /data/coco resize.py:resize --to-dataset /data/coco-small
        Publish what it returns on the Hugging Face Hub:
            energon map /data/coco resize.py:resize --to-dataset hf://datasets/me/coco-small --license cc-by-4.0
        Run it on a Ray cluster:
            energon map /data/coco quality:score --write score --engine ray --address auto
        Run a share of it in each job of a Slurm array:
            energon map /data/coco quality:score --write score --share auto
        Join the results of all shares:
            energon map /data/coco quality:score --write score --merge
    """
    from loader.dataset.query import find_samples
    from loader.engine import engines_with, named_engine
    from loader.mapping import (
        SAMPLES_OF_TASK,
        MapRequest,
        named_function,
        output_of,
        run_map,
        show_values,
        shown_dataset,
        whole_dataset,
    )

    # Check the options.
    targets = {name: options.pop(name) for name in ("write", "to_filter", "to_parts", "to_dataset")}
    given = [target for target in targets.values() if target not in ((), None)]
    if len(given) != (0 if show else 1):
        raise click.UsageError("Pass one of --write, --to-filter, --to-parts and --to-dataset, or --show alone.")
    if limit is not None and not show:
        raise click.UsageError("--limit is for a trial: pass it with --show.")
    if timeout is not None and not named_engine(engine.kind).interrupts_calls:
        valid = [f"--engine {name}" for name in engines_with("interrupts_calls")]
        raise click.UsageError(f"--timeout is valid only with {' and '.join(valid)}.")
    # Show the results of a few samples, which may be of a single file.
    ref = check_ref(ref).resolved()
    function = named_function(function_name, folder=os.getcwd(), version=version)
    if show:
        if as_json:
            raise click.UsageError("--show prints values as text: pass it without --json.")
        with shown_dataset(ref) as source:
            samples = find_samples(source.folder, query)[: limit or 3]
            forms = {name: options[name] for name in ("batch_size", "raw")}
            show_values(source, function, samples, **forms, show=_print_value)
        return
    # Choose the samples.
    if targets["to_dataset"] is None:
        ref = writable(ref)
    source = whole_dataset(ref)
    folder = source.folder
    samples = find_samples(folder, query)
    # Run the function, and report.
    output, target = output_of(ref, **targets)
    quiet = printing_to_stderr() if as_json else nullcontext()
    with quiet, engine.open(gpus=gpus_per_worker, apart=True) as where, ProgressBar("Mapping", unit="samples") as bar:
        request = MapRequest(
            source=source,
            function=function,
            output=output,
            target=target,
            samples=None if len(samples) == len(folder.index) else samples,
            timeout_s=timeout,
            start_timeout_s=options.pop("start_timeout"),
            engine=where,
            task_samples=task_samples or (_SAMPLES_WITH_GPUS if gpus_per_worker else SAMPLES_OF_TASK),
            **options,
        )
        report = run_map(request, on_progress=lambda done: bar.update(done.samples, done.total))
    show_warning(*report.warnings)
    if as_json:
        failures = [facts_of(failure, "sample key error") for failure in report.failures]
        names = "target written warnings samples failed skipped failures resumed tasks seconds"
        print_json(facts_of(report, names, failures=failures))
    else:
        _show(report)


def _print_value(key: str, value: object) -> None:
    text = error_text(value) if isinstance(value, BaseException) else repr(value)
    text = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
    output_console().print(f"{escape_controls(key)}: {escape_controls(text)}")


def _show(report: MapReport) -> None:

    console = output_console()
    what = ", ".join(map(escape_controls, report.written))
    resumed = f", {report.resumed:,} of {plural(report.tasks, 'task')} by an earlier run" if report.resumed else ""
    console.print(f"wrote {what}: {plural(report.samples, 'sample')} in {report.seconds:.1f} s{resumed}")
    if report.kept is not None:
        show_note(f"the filter keeps {plural(report.kept, 'sample')}; a loader uses it by filter_name={what!r}")
    if report.skipped:
        show_note(f"{plural(report.skipped, 'sample was', 'samples were')} skipped, and got no value")
    for failure in report.failures[:_MAX_FAILURES]:
        show_note(f"{escape_controls(failure.key)} failed: {escape_controls(failure.error)}")
    if report.failed:
        show_note(f"{plural(report.failed, 'sample')} failed, and got no value")
