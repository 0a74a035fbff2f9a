"""Show the facts about a metadataset: a tree of its datasets for each split."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from loader.inspect import format_percent, plural
from loader.storage import short_path

from ..console import escape_controls, print_table

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_COLUMNS = 1_000  # effectively no line wrapping when piped
_MIXED = {"weight": "mixed by weight", "repetitions": "repeated in each pass", None: "one after another"}


def show_metadataset(console: Console, facts: dict[str, Any]) -> None:
    """Print a tree for each split, and the number of faults."""
    console.print(Text(escape_controls(facts["path"]), style="bold"), soft_wrap=True)
    console.print(f"metadataset with {plural(len(facts['splits']), 'split')}")
    folder = os.path.dirname(facts["path"])
    if not console.is_terminal:
        console.width = _PIPED_COLUMNS
    for split in facts["splits"]:
        console.print()
        console.print(
            Text.assemble((escape_controls(split["name"]), "bold"), f": {_split_text(split)}"), soft_wrap=True
        )
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column("", overflow="fold")
        for heading in ("share", "samples", "per epoch"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("", overflow="fold")
        for row in _rows(split["tree"], folder):
            table.add_row(*row)
        print_table(console, table)
    if facts["faults"]:
        count = "1 dataset" if facts["faults"] == 1 else f"{facts['faults']:,} datasets"
        console.print()
        console.print(Text(f"{count} cannot be loaded as described; energon lint checks the others", style="red"))


def _split_text(split: dict[str, Any]) -> str:
    """Format the size of a split and how it is mixed."""
    samples = "an unknown number of samples" if split["samples"] is None else plural(split["samples"], "sample")
    if split["leaves"] == 1:
        return samples
    text = f"{samples} in {plural(split['leaves'], 'dataset')}, {_MIXED[split['mixed_by']]}"
    if split["mixed_by"] == "repetitions" and split["epoch"] is not None and split["samples"] is not None:
        text += f" ({split['epoch']:,} samples)"
    return text


def _rows(node: dict[str, Any], folder: str, first: str = "", rest: str = "") -> Iterator[list[Text]]:
    """Yield the rows of a node and of its descendants.

    Args:
        node: The node.
        folder: The folder of the metadataset; paths below it are shown relative to it.
        first: Indentation of the node.
        rest: Indentation of its descendants.
    """
    labels = [_label(node, folder)] if first else []
    while node["kind"] == "metadataset" and len(node["children"]) == 1:
        node = node["children"][0]  # an only child shares the row of its metadataset
        labels.append(_label(node, folder))
    children = node["children"]
    yield [
        Text(first + escape_controls(" → ".join(labels))),
        Text(_percent_text(node["share"]) if first else ""),
        Text("" if node["samples"] is None else f"{node['samples']:,}"),
        Text("" if node["expected_repetitions"] is None else _times_text(node["expected_repetitions"])),
        _node_notes(node),
    ]
    if node["join"] is not None:
        children = [{**_MEMBER, **member} for member in node["join"]["members"]]
    for number, child in enumerate(children, start=1):
        is_last = number == len(children)
        yield from _rows(child, folder, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  "))


_MEMBER: dict[str, Any] = {
    "kind": "member", "share": None, "samples": None, "expected_repetitions": None, "subset": [], "join": None,
    "children": [],
}  # fmt: skip


def _label(node: dict[str, Any], folder: str) -> str:
    if node["kind"] == "join":
        return f"join of {len(node['join']['members'])}"
    if node["kind"] in ("blend", "blend_epochized"):
        return str(node["kind"])
    name = f"{node['name']}: " if node.get("name") else ""
    return f"{name}{short_path(node['path'], folder)} ({node['split_part']})"


def _node_notes(node: dict[str, Any]) -> Text:
    """Format the remaining settings of a node, and its fault, in one line."""
    notes = [f"{name}: {value}" for name, value in node.get("subflavors", {}).items()]
    if node.get("unit", "samples") != "samples":
        notes.append(f"weights by {node['unit']}")
    if node.get("schedule") and not node["children"]:
        notes.append(f"share {node['schedule']['text']}")
    if node.get("filter"):
        notes.append(f"filter {node['filter']}")
    notes += [f"subset {applied}" for applied in node["subset"]]
    notes += [str(node[key]) for key in ("split_config", "dataset_config") if node.get(key)]
    if node.get("aux"):
        notes.append(f"aux {', '.join(node['aux'])}")
    if node.get("nonmatch", "error") != "error":
        notes.append(f"nonmatch {node['nonmatch']}")
    if node["join"] is not None and node["join"]["joiner"]:
        notes.append(f"by {node['join']['joiner']}")
    text = Text(escape_controls("; ".join(notes)), style="dim")
    if node.get("fault"):
        fault = Text(f"error: {escape_controls(node['fault'])}", style="red")
        text = Text("; ").join([text, fault]) if notes else fault
    return text


def _percent_text(share: float | None) -> str:
    return "" if share is None else format_percent(share)


def _times_text(repetitions: float) -> str:
    return f"{repetitions:.3g}×"
