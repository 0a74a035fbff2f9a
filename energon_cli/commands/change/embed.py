"""``energon embed``: vectors of the pictures or texts of a dataset, made by a model or a hash, as a column."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from loader.errors import escape_controls, plural

from ...command import energon_command
from ...console import facts_of, output_console, print_json, printing_to_stderr, show_note
from ...dataset_options import copy_options, dataset_options
from ...dataset_paths import check_ref
from ...engine_options import ENGINE_PARAMETERS, EngineChoice, engine_options
from ...options import shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.dataset.query import SampleQuery
    from loader.format import DatasetRef
    from loader.mapping import MapReport


@energon_command(
    "embed", advanced=(*ENGINE_PARAMETERS, "version", "dtype", "retry_failed", "storage_option", "key_column")
)
@click.argument("path", metavar="DATASET", type=click.UNPROCESSED)
@click.option(
    "--model", metavar="MODEL", required=True, help="Embed by phash, minhash, module:Class, or a ready class."
)
@click.option(
    "--part", metavar="NAME", help="Embed this part or text: json[caption].  [default: first picture or text]"
)
@click.option("--write", metavar="NAME", help="Write vectors to this column.  [default: phash, minhash or embedding]")
@shared_options("batch_size", default=64, help="Pass this many samples to each call of a model.")
@click.option(
    "--dtype", type=click.Choice(["float16", "float32"]), default="float16", help="Set the type of a model's vectors."
)
@shared_options("max_failures", "retry_failed", "gpus_per_worker", "version")
@copy_options
@engine_options
@dataset_options()
@shared_options("json", "progress")
def embed(
    ref: DatasetRef,
    *,
    model: str,
    write: str | None,
    max_failures: int,
    retry_failed: bool,
    gpus_per_worker: float,
    query: SampleQuery,
    engine: EngineChoice,
    as_json: bool,
    **options: Any,
) -> None:
    """Write vectors of the pictures or texts of DATASET to a column, by which samples are compared.

    MODEL is phash, a perceptual hash of pictures; minhash, a hash of the words of texts; open_clip:NAME,
    sentence-transformers:NAME, timm:NAME or torchvision:NAME@FILE, a model that you have on this machine; or
    module:Class, your own: it is instantiated once in each worker, and called with lists of pictures (of Pillow, in
    RGB) or of texts.

    Finished tasks stay in a journal: after an interruption, the same command continues. With the column,
    energon stats --near-duplicates, energon exclude --near-duplicates and energon split --check --near find similar
    samples, and energon get --like finds neighbours of one.

    Examples:
        Hash all pictures:
            energon embed /data/coco --model phash
        Hash texts:
            energon embed /data/books --model minhash --part txt
        Embed pictures by CLIP, on two GPUs:
            energon embed /data/coco --model open_clip:ViT-B-32/laion2b_s34b_b79k --gpus-per-worker 1 --write clip
        Embed captions:
            energon embed /data/coco --model sentence-transformers:all-MiniLM-L6-v2 --part txt --write caption
        Use a model of your own:
            energon embed /data/coco --model my_model:Encoder --write mine
    """
    from loader.dataset.query import find_samples
    from loader.mapping import MapRequest, ToColumns, run_map, whole_dataset
    from loader.similarity import embedding_of, part_source

    # Choose the samples, and the model.
    path = ref.path
    ref = check_ref(ref).resolved()
    folder = whole_dataset(ref).folder
    samples = find_samples(folder, query)
    embedding = embedding_of(model, folder.index.part_names, at=ref.path, folder=os.getcwd(), **options)
    column = write or embedding.column
    # Run it, and report.
    quiet = printing_to_stderr() if as_json else nullcontext()
    with quiet, engine.open(gpus=gpus_per_worker, apart=True) as where, ProgressBar("Embedding", unit="samples") as bar:
        request = MapRequest(
            source=part_source(ref, embedding.reads),
            function=embedding.function,
            output=ToColumns(names=(column,), path=ref.path, metric=embedding.metric, model=model),
            target=f"write-{column}",
            samples=None if len(samples) == len(folder.index) else samples,
            batch_size=embedding.batch_size,
            raw=True,
            max_failures=max_failures,
            retry_failed=retry_failed,
            engine=where,
            command="embed",
        )
        report = run_map(request, on_progress=lambda done: bar.update(done.samples, done.total))
    if as_json:
        names = "column model part metric samples failed skipped failures resumed tasks seconds"
        facts = facts_of(report, names, column=column, model=model, part=embedding.part, metric=embedding.metric)
        print_json(facts)
    else:
        _show(report, path, column, embedding.part)


def _show(report: MapReport, path: str, column: str, part: str) -> None:

    resumed = f", {report.resumed:,} of {plural(report.tasks, 'task')} by an earlier run" if report.resumed else ""
    vectors = report.samples - report.failed - report.skipped
    text = f"wrote column {column}: {plural(vectors, 'vector')} of {part} in {report.seconds:.1f} s{resumed}"
    output_console().print(escape_controls(text))
    if report.skipped:
        show_note(f"{plural(report.skipped, 'sample')} got no vector: there is no {part}, or nothing in it to compare")
    for failure in report.failures[:10]:
        show_note(f"{escape_controls(failure.key)} failed: {escape_controls(failure.error)}")
    show_note(f"group similar samples: energon stats {path} --near-duplicates {column}")
