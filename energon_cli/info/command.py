"""``energon info``: one screen that says what a dataset is."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Any

import click

from ..command import energon_command
from ..dataset_path import check_path, given_name, is_jsonl, is_metadataset, open_parent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["info"]

_PARTS_SHOWN = 50  # the largest
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
    from ..console import output_console, print_json

    check_path(path)
    if is_metadataset(path):
        from .metadataset import metadataset_facts

        facts = metadataset_facts(
            path,
            split_config=given_name("split_config", split_config),
            dataset_config=given_name("dataset_config", dataset_config),
        )
        if as_json:
            print_json(facts)
        else:
            from .tree import show_metadataset

            show_metadataset(output_console(), facts)
        if facts["faults"]:
            raise click.exceptions.Exit(1)
        return
    from .facts import dataset_facts, jsonl_facts

    if is_jsonl(path):
        facts = jsonl_facts(*open_parent(path))
    else:
        from loader.format.dataset_folder import DatasetFolder
        from loader.storage import open_storage

        from .media import is_media_folder, media_folder_facts, show_media_folder

        if is_media_folder(storage := open_storage(path)):
            facts = media_folder_facts(storage)
            if as_json:
                print_json(facts)
            else:
                show_media_folder(output_console(), facts)
            return
        facts = dataset_facts(DatasetFolder(path, split_config=split_config, dataset_config=dataset_config))
    if as_json:
        print_json(facts)
        return
    _render(output_console(), facts)


def _render(console: Console, facts: dict[str, Any]) -> None:
    from rich.text import Text

    from ..console import escape_controls, format_bytes, plural, print_table

    console.print(Text(escape_controls(facts["path"]), style="bold"), soft_wrap=True)
    console.print(
        f"{plural(facts['samples'], 'sample')} in {plural(facts['shards'], 'shard')}, {format_bytes(facts['bytes'])}"
    )
    for label, value in _lines(facts):
        console.print(Text.assemble((f"{label:<12}", "cyan"), escape_controls(value)), soft_wrap=True)
    if facts["splits"]:
        console.print()
        print_table(console, _split_table(facts["splits"]))
    if facts["parts"]:
        console.print()
        print_table(console, _part_table(facts["parts"]))
        if len(facts["parts"]) > _PARTS_SHOWN:
            console.print(f"… and {len(facts['parts']) - _PARTS_SHOWN:,} more (--json lists all)")


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Give what is said in one line each, as label and text."""
    from ..console import plural
    from .media import media_lines

    lines = [("samples are", _kind(facts))]
    for label, key in (("from", "field_map"), ("from", "sample_loader"), ("parts", "part_filter")):
        value = facts.get(key)
        if isinstance(value, dict):
            lines.append((label, ", ".join(f"{field} ← {expression}" for field, expression in value.items())))
        elif value:
            lines.append((label, value if isinstance(value, str) else ", ".join(value)))
    if facts.get("subflavors"):
        lines.append(("subflavors", ", ".join(f"{name}: {value}" for name, value in facts["subflavors"].items())))
    if any((facts.get("excluded") or {}).values()):
        excluded = facts["excluded"]
        lines.append(
            ("excluded", f"{plural(excluded['shards'], 'shard')}, {plural(excluded['samples'], 'single sample')}")
        )
    lines += media_lines(facts.get("media_metadata"))
    if facts.get("prepared"):
        lines.append(("prepared", f"{facts['prepared']['at']} by {facts['prepared']['by']}"))
    lines.append(("index", _index_text(facts["index"])))
    if facts.get("duplicate_keys"):
        lines.append(("keys", f"{facts['duplicate_keys']:,} samples have the key of an earlier one"))
    if "compat" in facts:
        lines.append(("compat", "index.sqlite for megatron-energon is there" if facts["compat"] else "no index.sqlite"))
    return lines


def _kind(facts: dict[str, Any]) -> str:
    if facts["sample_type"] is None:
        return "crude (there is no dataset.yaml)"
    return "crude: dicts of parts" if facts["crude"] else str(facts["sample_type"])


def _index_text(index: dict[str, Any]) -> str:
    if index["state"] == "fresh":
        return "up to date"
    if index["state"] == "touched":
        return f"up to date, though the times of {index['touched']:,} shards changed (as copying does)"
    faults = [
        f"{len(index[what]):,} {word} ({index[what][0]}{', …' if len(index[what]) > 1 else ''})"
        for what, word in (("changed", "changed"), ("missing", "gone"))
        if index[what]
    ]
    return f"STALE: shards {' and '.join(faults)} since it was made; run energon prepare again"


def _table(first: str, *numbers: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(first)
    for heading in numbers:
        table.add_column(heading, justify="right")
    return table


def _split_table(splits: list[dict[str, Any]]) -> Table:
    from ..console import escape_controls, format_count

    table = _table("split part", "shards", "samples", "share")
    for split in splits:
        table.add_row(
            escape_controls(split["name"]),
            format_count(split["shards"]),
            format_count(split["samples"]),
            f"{100 * split['share']:.1f} %",
        )
    return table


def _part_table(parts: list[dict[str, Any]]) -> Table:
    from ..console import escape_controls, format_bytes

    table = _table("part", "coverage", "total", "median")
    largest = nlargest(_PARTS_SHOWN, range(len(parts)), key=lambda number: parts[number]["total_bytes"])
    for part in (parts[number] for number in sorted(largest)):
        table.add_row(
            escape_controls(part["name"]),
            f"{100 * part['coverage']:.4g} %",
            format_bytes(part["total_bytes"]),
            format_bytes(part["median_bytes"]),
        )
    return table
