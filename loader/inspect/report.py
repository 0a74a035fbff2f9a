"""Show the facts about a dataset, metadataset or folder of media files on one screen."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from rich.table import Column, Table
from rich.text import Text

from ..errors import escape_controls, plural
from ..storage import short_path
from .text import format_bytes, format_percent, requests_text

if TYPE_CHECKING:
    from rich.console import Console


_PIPED_COLUMNS = 1_000  # effectively no line wrapping when piped
_MIXED = {"weight": "mixed by weight", "repetitions": "repeated in each pass", None: "one after another"}
_MAX_PARTS = 50  # the largest


def show_facts(console: Console, facts: dict[str, Any], path: Text | None = None) -> None:
    """Show what :func:`~.facts.path_facts` returns.

    Args:
        path: The path of a dataset as it is shown, such as a link; None for bold text.
    """
    if facts["type"] == "metadataset":
        show_metadataset(console, facts)
    elif facts["type"] == "files":
        _show_media_folder(console, facts)
    else:
        _show_dataset(console, facts, path)


def _show_dataset(console: Console, facts: dict[str, Any], path: Text | None) -> None:
    console.print(path or Text(escape_controls(facts["path"]), style="bold"))
    console.print(
        f"{plural(facts['samples'], 'sample')} in {plural(facts['shards'], 'shard')}, {format_bytes(facts['bytes'])}"
    )
    _print_lines(console, _lines(facts))
    if facts["splits"]:
        console.print()
        rows = [
            (each["name"], f"{each['shards']:,}", f"{each['samples']:,}", format_percent(each["share"]))
            for each in facts["splits"]
        ]
        print_table(console, ("split part", ">shards", ">samples", ">share"), rows)
    if facts["parts"]:
        console.print()
        _show_parts(console, facts["parts"])
        if len(facts["parts"]) > _MAX_PARTS:
            console.print(f"… and {len(facts['parts']) - _MAX_PARTS:,} more (--json lists all)")
    if facts.get("part_sets"):
        console.print()
        print_part_sets(console, facts["part_sets"], is_complete=facts["part_sets_complete"])


def _show_parts(console: Console, parts: list[dict[str, Any]]) -> None:
    # Show the largest parts, in the order of the dataset.
    largest = nlargest(_MAX_PARTS, range(len(parts)), key=lambda index: parts[index]["total_bytes"])
    shown = [parts[index] for index in sorted(largest)]
    sizes = [map(format_bytes, (each["total_bytes"], each["median_bytes"])) for each in shown]
    rows = [(each["name"], format_percent(each["coverage"]), *of) for each, of in zip(shown, sizes, strict=True)]
    print_table(console, ("part", ">coverage", ">total", ">median"), rows)


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    # What samples are made of.
    lines = [("samples are", _kind(facts))]
    for label, key in (("from", "field_map"), ("from", "sample_loader"), ("parts", "part_filter")):
        value = facts.get(key)
        if isinstance(value, dict):
            lines.append((label, ", ".join(f"{field} ← {expression}" for field, expression in value.items())))
        elif value:
            lines.append((label, value if isinstance(value, str) else ", ".join(value)))
    if facts.get("subflavors"):
        lines.append(("subflavors", ", ".join(f"{name}: {value}" for name, value in facts["subflavors"].items())))
    # What restricts and describes them.
    if any((facts.get("excluded") or {}).values()):
        excluded = facts["excluded"]
        lines.append(
            ("excluded", f"{plural(excluded['shards'], 'shard')}, {plural(excluded['samples'], 'single sample')}")
        )
    for entry in facts.get("filters") or ():
        kept = entry["fault"] or f"keeps {plural(entry['samples'], 'sample')}"
        lines.append(("filter", escape_controls(f"{entry['name']}: {kept}")))
    lines += [
        ("column", escape_controls(f"{entry['name']}: {entry['fault'] or _column_text(entry)}"))
        for entry in facts.get("sample_columns") or ()
    ]
    lines += _record_lines(facts)
    lines += _media_lines(facts.get("media_metadata"))
    # The state of the index.
    if facts.get("prepared"):
        lines.append(("prepared", f"{facts['prepared']['at']} by {facts['prepared']['by']}"))
    lines.append(("index", facts.get("note") or _index_text(facts["index"])))
    lines += [("damaged", fault) for fault in facts.get("damaged", ())]
    if facts.get("compressed"):
        lines.append(("skipped", f"{plural(len(facts['compressed']), 'compressed tar file')}, without random access"))
    if facts.get("unfinished"):
        lines.append(("unfinished", f"{escape_controls(facts['unfinished'])}; energon prepare removes them"))
    if facts.get("duplicate_keys"):
        lines.append(("keys", f"{plural(facts['duplicate_keys'], 'sample')} with the key of an earlier sample"))
    if "hub_requests" in facts:
        lines.append(("requests", requests_text(facts["hub_requests"])))
    if "compat" in facts:
        lines.append(("compat", "index.sqlite for megatron-energon exists" if facts["compat"] else "no index.sqlite"))
    return lines


def _column_text(entry: dict[str, Any]) -> str:
    """Describe the values of a column: ``512 float16, cosine, model ViT-B-32, 3 samples without a value``."""
    words = [entry["of"]] if entry["of"] else []
    if entry["kind"] == "vectors":
        words = [f"{entry['length']} {entry['type']}", *words]
        words += [entry["metric"]] if entry["metric"] else []
        words += [f"model {entry['model']}"] if entry["model"] else []
    elif not words:
        words = [entry["kind"] if entry["kind"] in ("texts", "categories") else entry["type"]]
    unit = f" in {entry['unit']}" if entry["unit"] else ""
    missing = [f"{plural(entry['missing'], 'sample')} without a value"] if entry["missing"] else []
    return ", ".join([f"{', '.join(words)}{unit}", *missing])


def _record_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    lines = []
    if "tokens" in facts:
        tokens = facts["tokens"]
        lines.append(
            ("tokens", f"{tokens['total']:,} of {tokens['dtype']}, in {plural(tokens['documents'], 'document')}")
        )
    if "columns" in facts:
        columns = ", ".join(f"{escape_controls(name)} {kind}" for name, kind in facts["columns"].items())
        groups = facts["row_groups"]
        lines.append(("columns", columns))
        lines.append(("row groups", f"{groups['count']:,}, the largest of {format_bytes(groups['largest_bytes'])}"))
    return lines


def _kind(facts: dict[str, Any]) -> str:
    if facts["sample_type"] is None:
        return "crude (no dataset.yaml)"
    return "crude: dicts of parts" if facts["crude"] else str(facts["sample_type"])


def _index_text(index: dict[str, Any]) -> str:
    if index["state"] == "fresh":
        return "up to date"
    if index["state"] == "touched":
        return (
            f"up to date, though {plural(index['touched'], 'shard has', 'shards have')} another time (as after copying)"
        )
    faults = [
        f"{plural(len(index[what]), 'shard')} {what} ({index[what][0]}{', …' if len(index[what]) > 1 else ''})"
        for what in ("changed", "missing")
        if index[what]
    ]
    return f"STALE: {' and '.join(faults)} since it was built; run energon prepare again"


def _media_lines(facts: dict[str, Any] | None) -> list[tuple[str, str]]:
    if facts is None:
        return []
    lines = []
    images, videos, sounds = facts["images"], facts["videos"], facts["sounds"]
    if images["count"]:
        formats = ", ".join(f"{name} {count:,}" for name, count in images["formats"].items())
        lines.append(("images", f"{plural(images['count'], 'image')} ({formats}), {_size_text(images)}"))
    if videos["count"]:
        text = f"{plural(videos['count'], 'video')}, {_size_text(videos)}, {_duration_text(videos)}"
        lines.append(("video", text))
    if sounds["count"]:
        rates = ", ".join(f"{rate} Hz" for rate in sounds["sample_rates"])
        lines.append(("audio", f"{plural(sounds['count'], 'track')} ({rates}), {_duration_text(sounds)}"))
    if not facts["complete"]:
        lines = [(label, f"of the first {plural(facts['entries'], 'media file')}: {text}") for label, text in lines]
    return lines or [("media", "no image, audio or video was found")]


def _size_text(facts: dict[str, Any]) -> str:
    width, height = facts["width"], facts["height"]
    if width is None or height is None:
        return "sizes unknown"
    if (width["min"], height["min"]) == (width["max"], height["max"]):
        return f"all {width['min']}×{height['min']}"
    return " × ".join(f"{side['min']}–{side['max']} (median {side['median']})" for side in (width, height))


def _duration_text(facts: dict[str, Any]) -> str:
    seconds = facts["seconds"]
    text = f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.1f} min"
    text = text if seconds < 6000 else f"{seconds / 3600:,.1f} h"
    # Show how many lengths were not taken from headers.
    basis = ", ".join(f"{count:,} {name}" for name, count in facts["basis"].items() if name in ("counted", "decoded"))
    return f"{text} ({basis})" if basis else text


def _show_media_folder(console: Console, facts: dict[str, Any]) -> None:
    media = facts["media_metadata"]
    console.print(Text(escape_controls(facts["path"]), style="bold"))
    more = "" if media["complete"] else "more than "
    console.print(f"a folder of files, with media metadata of {more}{media['entries']:,}")
    _print_lines(console, _media_lines(media))


def _print_lines(console: Console, lines: Iterable[tuple[str, str]]) -> None:
    for label, value in lines:
        console.print(Text.assemble((f"{label:<12}", "cyan"), escape_controls(value)))


def show_metadataset(console: Console, facts: dict[str, Any]) -> None:
    """Print a tree for each split, and the number of faults."""
    console.print(Text(escape_controls(facts["path"]), style="bold"))
    console.print(f"metadataset with {plural(len(facts['splits']), 'split')}")
    if "hub_requests" in facts:
        console.print(f"requests to the hub: {requests_text(facts['hub_requests'])}")
    # Paths are shown relative to the file.
    folder = os.path.dirname(facts["path"])
    if not console.is_terminal:
        console.width = _PIPED_COLUMNS
    for split in facts["splits"]:
        console.print()
        console.print(Text.assemble((escape_controls(split["name"]), "bold"), f": {_split_text(split)}"))
        print_table(console, ("", ">share", ">samples", ">per epoch", ""), _rows(split["tree"], folder))
    if facts["faults"]:
        count = plural(facts["faults"], "dataset")
        console.print()
        console.print(Text(f"{count} cannot be loaded as described; energon lint checks the others", style="red"))


def _split_text(split: dict[str, Any]) -> str:
    samples = "an unknown number of samples" if split["samples"] is None else plural(split["samples"], "sample")
    if split["leaves"] == 1:
        return samples
    text = f"{samples} in {plural(split['leaves'], 'dataset')}, {_MIXED[split['mixed_by']]}"
    if split["mixed_by"] == "repetitions" and split["epoch"] is not None and split["samples"] is not None:
        text += f" ({plural(split['epoch'], 'sample')})"
    return text


def _rows(node: dict[str, Any], folder: str, first: str = "", rest: str = "") -> Iterator[list[Any]]:
    # Name the node, and describe it in one row.
    labels = [_label(node, folder)] if first else []
    while node["kind"] == "metadataset" and len(node["children"]) == 1:
        node = node["children"][0]  # an only child shares the row of its metadataset
        labels.append(_label(node, folder))
    children = node["children"]
    label = Table.grid(*first and [Column(width=len(first))], Column(overflow="fold"))
    label.add_row(*first and [first], Text(escape_controls(" → ".join(labels))))
    yield [
        label,  # as one text, a name wider than the column would start below its branch
        Text(format_percent(node["share"]) if first and node["share"] is not None else ""),
        Text("" if node["samples"] is None else f"{node['samples']:,}"),
        Text("" if node["expected_repetitions"] is None else f"{node['expected_repetitions']:.3g}×"),
        _node_notes(node),
    ]
    # Then draw its branches: members of a join look like datasets.
    if node["join"] is not None:
        children = [{**_MEMBER, **member} for member in node["join"]["members"]]
    for index, child in enumerate(children, start=1):
        is_last = index == len(children)
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


# Print tables: of any rows, and of the part sets of a dataset.


_MAX_ROWS = 8  # part sets that are shown: there are a handful in most data
_MAX_NAMES = 12  # of a part set


def print_table(console: Console, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table whose columns break words only if the longest words are wider than the console.

    When piped, the spaces that pad its last column are stripped.

    Args:
        headings: A heading for each column; of numbers, which are aligned to the right, with ``>`` before it.
    """
    from rich.measure import measure_renderables

    # Fill the table.
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=any(headings))
    for heading in headings:
        table.add_column(heading.removeprefix(">"), justify="right" if heading[:1] == ">" else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape_controls(cell) if isinstance(cell, str) else cell for cell in row))
    # A column needs the width of its longest word; of numbers, that of its longest line.
    longest, widths = [], []
    for column in table.columns:
        head, cells = (
            measure_renderables(console, console.options, [*some]) for some in ([column.header], column.cells)
        )
        widths.append(max(head.maximum, cells.maximum))
        longest.append(max(head.minimum, cells.maximum if column.justify == "right" else cells.minimum))
    # Narrow the widest columns until the table fits.
    room = console.width - 2 * (len(widths) - 1)
    least = longest if sum(longest) <= room else [1] * len(widths)
    while sum(widths) > room and (wide := [at for at, width in enumerate(widths) if width > least[at]]):
        widths[max(wide, key=widths.__getitem__)] -= 1  # take from the widest column
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width or None
    # Print it; when piped, without trailing blanks.
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")  # print() would escape the colours of --color always


def print_part_sets(console: Console, part_sets: Sequence[Mapping[str, Any]], *, is_complete: bool = True) -> None:
    """Print which part names occur together, the most frequent sets first, and the number of the others.

    Args:
        part_sets: The table as ``--json`` prints it.
    """
    if not part_sets:
        return
    rows = []
    for each in part_sets[:_MAX_ROWS]:
        more = len(each["parts"]) - _MAX_NAMES
        names = " ".join(each["parts"][:_MAX_NAMES]) + (f" … and {more:,} more" if more > 0 else "")
        rows.append((names, f"{each['samples']:,}", f"{each['shards']:,}", each["example"]))
    print_table(console, ("part set", ">samples", ">shards", "example"), rows)
    more = len(part_sets) - _MAX_ROWS
    if more > 0:
        console.print(f"… and {'' if is_complete else 'at least '}{more:,} more part sets (--json lists them)")
