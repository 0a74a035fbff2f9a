"""``energon info``: describe a dataset on one screen."""

from __future__ import annotations

import click

from ..command import energon_command
from ..dataset_path import check_path, given_name

__all__ = ["info"]

_EXAMPLES = (
    ("Describe a dataset", "energon info /data/coco"),
    ("Show the datasets of a mix, their shares and repetitions", "energon info /data/mix.yaml"),
    ("Pass the number of samples to a script", "energon info /data/coco --json | jq .samples"),
)


@energon_command("info", examples=_EXAMPLES, short_help="Describe a prepared dataset on one screen.")
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print the description as JSON.")
@click.option(
    "--dataset-config",
    metavar="NAME",
    default="dataset.yaml",
    show_default=True,
    help="Name of the dataset file in .nv-meta.",
)
@click.option(
    "--split-config",
    metavar="NAME",
    default="split.yaml",
    show_default=True,
    help="Name of the split file in .nv-meta.",
)
def info(path: str, *, as_json: bool, dataset_config: str, split_config: str) -> None:
    """Describe the dataset at PATH: samples, shards, split, parts, sample type, and whether its index is up to date.

    PATH may also be a .jsonl, .bin or .parquet file, a folder of files after prepare-media, or a metadataset .yaml.
    The datasets of a metadataset are shown as a tree, with their shares and repetitions; the exit code is 1 if one of
    them is missing.

    Shards are not read: the run time does not depend on the number of samples.
    """
    from loader.inspect import path_facts

    from ..console import output_console, print_json

    path = check_path(path)
    facts = path_facts(
        path,
        split_config=given_name("split_config", split_config),
        dataset_config=given_name("dataset_config", dataset_config),
    )
    if as_json:
        print_json(facts)
    else:
        from .report import show_facts

        show_facts(output_console(), facts)
    if facts.get("faults"):
        raise click.exceptions.Exit(1)
