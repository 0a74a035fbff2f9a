"""``energon info``: describe a dataset on one screen."""

from __future__ import annotations

import click

from ..command import energon_command
from ..dataset_path import check_path, given_name

__all__ = ["info"]

_EXAMPLES = (
    ("Describe a dataset", "energon info /data/coco"),
    ("Show what a mix is made of, and how often each dataset's samples come", "energon info /data/mix.yaml"),
    ("Give a script the number of samples", "energon info /data/coco --json | jq .samples"),
)


@energon_command("info", examples=_EXAMPLES, short_help="Describe a prepared dataset on one screen.")
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print the description as JSON.")
@click.option(
    "--dataset-config", metavar="NAME", default="dataset.yaml", show_default=True, help="Its name in .nv-meta."
)
@click.option("--split-config", metavar="NAME", default="split.yaml", show_default=True, help="Its name in .nv-meta.")
def info(path: str, *, as_json: bool, dataset_config: str, split_config: str) -> None:
    """Describe the dataset at PATH: samples, shards, split, parts, sample type, and whether its index is fresh.

    PATH may also be a .jsonl file, or a metadataset .yaml: its datasets are then shown as a tree, with the share of
    each in the mix, and how often its samples come. Exits 1 if one of them is missing.

    No shard is read, so it takes as long for a million samples as for ten.
    """
    from loader.inspect import path_facts

    from ..console import output_console, print_json
    from .report import show_facts

    check_path(path)
    facts = path_facts(
        path,
        split_config=given_name("split_config", split_config),
        dataset_config=given_name("dataset_config", dataset_config),
    )
    if as_json:
        print_json(facts)
    else:
        show_facts(output_console(), facts)
    if facts.get("faults"):
        raise click.exceptions.Exit(1)
