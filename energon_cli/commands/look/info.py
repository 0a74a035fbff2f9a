"""``energon info``: describe a dataset on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...command import energon_command
from ...console import linked_path, output_console, print_reports
from ...dataset_options import dataset_options
from ...dataset_paths import check_ref
from ...options import NUMBER, shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.format import DatasetRef


@energon_command("info")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@shared_options("json", "progress")
@click.option("--nodes", **NUMBER, default=1, help="Count requests to the hub for N nodes.")
@dataset_options("dataset_config")
def info(refs: tuple[DatasetRef, ...], *, nodes: int, as_json: bool) -> None:
    """Describe the dataset at PATH: samples, shards, split, parts, sample type, and whether its index is up to date.

    PATH may also be a .jsonl, .bin or .parquet file, a folder of files after prepare-media, or a metadataset .yaml.
    The datasets of a metadataset are shown as a tree, with their shares and repetitions; the exit code is 1 if one of
    them is missing.

    The shards of a dataset are not read: the run time does not depend on the number of samples. Of tar files that are
    not prepared, a folder or a single one, all headers are scanned.

    PATH may be a URL of an object store or web server, such as s3://bucket/coco. Several paths are described one after
    another.

    Examples:
        Describe a dataset:
            energon info /data/coco
        Describe all datasets of a folder:
            energon info /data/*
        Describe tar files that are not prepared:
            energon info /data/raw_shards
        Show the datasets of a mix, their shares and repetitions:
            energon info /data/mix.yaml
        Describe a dataset in an object store:
            energon info s3://bucket/coco
        Count the requests of a run on 32 nodes, and compare them with the limits of the Hugging Face Hub:
            energon info hf://datasets/OWNER/NAME --nodes 32
        Pass the number of samples to a script:
            energon info /data/coco --json | jq .samples
    """
    from loader.engine import usable_cores
    from loader.inspect import path_facts, show_facts

    documents = []
    for position, given in enumerate(refs):
        ref = check_ref(given)
        with ProgressBar("Scanning headers", unit="shards") as bar:
            facts = path_facts(ref, workers=usable_cores(), nodes=nodes, on_progress=bar.update)
        documents.append(facts)
        if not as_json:
            if position:
                click.echo()
            console = output_console()
            show_facts(console, facts, linked_path(console, facts["path"]))
    if as_json:
        print_reports(documents, is_list=len(refs) != 1)
    if any(facts.get("faults") or facts.get("damaged") for facts in documents):
        raise click.exceptions.Exit(1)
