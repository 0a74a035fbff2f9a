"""``energon checkpoint info``: describe saved states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ...command import energon_command
from ...options import shared_options

if TYPE_CHECKING:
    from rich.console import Console

    from loader.training.states import RunState

_MAX_STATES_SHOWN = 200  # of a file
_MAX_TEXT = 4000  # characters of a line
_KINDS = {
    "endless": "endless",
    "finite": "finite pass",
    "lane by lane": "finite pass, lane by lane",
}


@energon_command("info", takes_path=False)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@shared_options("json")
def info(files: tuple[str, ...], *, as_json: bool) -> None:
    """Describe the states in each FILE, which is JSON or written by torch.save.

    A FILE may be a folder: its .json, .pt, .pth and .ckpt files are read, and Accelerate's custom_checkpoint_*.pkl.
    States of one run are described together: missing ranks, the next micro-batch, the samples waiting in buffers, the
    datasets, and the numbers of ranks that the run can resume on.

    Only plain data is read; a file that references classes or functions is refused. Exits with 1 if a file cannot be
    read or contains no state, or if the states of a run do not match.

    Examples:
        Show the progress of a run, from the files of its ranks:
            energon checkpoint info /data/run/step_1000
        Inspect a checkpoint that also contains a model:
            energon checkpoint info /data/run/model_and_loader.pt
        Print the number of the next micro-batch:
            energon checkpoint info /data/run/step_1000 --json | jq '.runs[0].batch'
    """
    from loader.errors import EnergonError
    from loader.training.states import group_by_run

    from ...console import output_console, print_json
    from .checkpoint import read_state_files

    documents: list[dict[str, Any]] = []
    states: list[tuple[str, RunState]] = []
    for path, found in read_state_files(files):
        documents.append(_file_facts(path, found))
        if not isinstance(found, EnergonError):
            states += [(f"{path}: {_place(one.place)}", one.state) for one in found.states]
    facts = {"files": documents, "runs": [_run_facts(run) for run in group_by_run(states)]}
    if as_json:
        print_json(facts)
    else:
        _show(output_console(), facts)
    if any(file["fault"] for file in documents) or any(
        run["fault"] and not run["missing_ranks"] for run in facts["runs"]
    ):
        raise click.exceptions.Exit(1)


def _file_facts(path: str, found: Any) -> dict[str, Any]:
    from loader.errors import EnergonError
    from loader.training.states import describe_state

    if isinstance(found, EnergonError):
        return {"path": path, "form": None, "fault": str(found), "states": []}
    states = [{"place": _place(one.place), **describe_state(one.state)} for one in found.states]
    return {"path": path, "form": found.form, "fault": None, "states": states}


def _place(place: Any) -> str:
    from loader.training.states import place_text

    return place_text(place)


def _run_facts(run: Sequence[tuple[str, RunState]]) -> dict[str, Any]:
    from loader.training.states import describe_run

    return {"states": [where for where, _ in run], **describe_run([state for _, state in run])}


# -------------------------------------------------------------------------------------------------------- output


def _show(console: Console, facts: dict[str, Any]) -> None:
    from rich.text import Text

    from loader.errors import escape_controls

    for file in facts["files"]:
        console.print(Text(escape_controls(file["path"]), style="bold"))
        if file["fault"]:
            console.print(Text(escape_controls(f"  error: {file['fault']}", keep="\n"), style="red"))
        for state in file["states"][:_MAX_STATES_SHOWN]:
            place = f" at {state['place']}" if state["place"] else ""
            text = f"  state of rank {state['rank']} of {state['ranks']}{place}"
            console.print(_line(text))
        if (more := len(file["states"]) - _MAX_STATES_SHOWN) > 0:
            console.print(f"  … and {more:,} more states; --json lists them")
    for run in facts["runs"]:
        console.print()
        console.print(Text(_headline(run), style="bold"))
        for label, value in _lines(run):
            console.print(Text.assemble((f"{label:<12}", "cyan"), _line(value)))


def _line(text: str) -> str:
    """Return a text without control characters; a hostile file has texts of a hundred megabytes."""
    from loader.errors import escape_controls

    return escape_controls(text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} …")


def _headline(run: dict[str, Any]) -> str:
    ranks = "a run of 1 rank" if run["ranks"] == 1 else f"a run of {run['ranks']:,} ranks"
    if run["missing_ranks"]:
        missing = ", ".join(map(str, run["missing_ranks"][:10])) + ", …" * (len(run["missing_ranks"]) > 10)
        return f"{ranks}; missing ranks: {missing}"
    return f"{ranks}, all present"


def _lines(run: dict[str, Any]) -> list[tuple[str, str]]:
    from loader.inspect import plural

    lines = []
    if run["fault"] and not run["missing_ranks"]:
        lines.append(("error", run["fault"]))
    lines += [
        ("next", f"micro-batch {run['batch']:,} of the run" + (", after the end of the pass" if run["ended"] else "")),
        ("resumes on", f"{_possible(run['possible_ranks'])} ranks"),
        ("lanes", f"{run['lanes']:,}, {run['lanes_begun']:,} started"),
        ("kind", _KINDS.get(run["kind"], "unknown")),
        ("seed", str(run["seed"])),
    ]
    if run["steps"]:
        lines.append(("counted", f"{', '.join(map(str, run['steps']))} (virtual epochs, limits, repeats)"))
    if run["passes"]:
        lines.append(("passes", f"restarted {plural(run['passes'], 'time')}"))
    if run["samples_waiting"]:
        lines.append(("waiting", f"{plural(run['samples_waiting'], 'sample')} in buffers"))
    lines.append(("stages", " → ".join(_stage(stage) for stage in reversed(run["stages"]))))
    for dataset in run["datasets"]:
        text = _dataset(dataset, show_share=len(run["datasets"]) > 1)
        lines += [("data", text), *(("  joined", _dataset(member)) for member in dataset["members"])]
    for change in run["mix_changes"]:
        others = [leaf for leaf in change["leaves"] if not str(leaf["change"]).startswith("continues")]
        kept = plural(len(change["leaves"]) - len(others), "dataset")
        lines.append(("edited", f"before micro-batch {change['batch']:,}; {kept} continued"))
        lines += [("", f"{leaf['dataset']}: {leaf['change']}, weight {leaf['weight']}") for leaf in others]
    return lines


def _possible(ranks: list[int] | None) -> str:
    if ranks is None:
        return "any number of"
    return str(ranks[0]) if len(ranks) == 1 else f"{', '.join(map(str, ranks[:-1]))} or {ranks[-1]}"


def _stage(stage: dict[str, Any]) -> str:
    name, settings = stage["name"], stage["settings"]
    size = settings.get("batch_size", settings.get("buffer_size")) if isinstance(settings, dict) else None
    return name if size is None else f"{name} ({size})"


def _dataset(dataset: dict[str, Any], *, show_share: bool = False) -> str:
    from loader.inspect import plural

    samples = dataset["samples"]
    text = str(dataset["path"]) + (f", {dataset['split_part']}" if dataset["split_part"] else "")
    text += f": {plural(samples, 'sample')}" if isinstance(samples, int) else ""
    text += f", uuid {dataset['uuid']}" if dataset["uuid"] else ""
    share = dataset["schedule"] or (None if dataset["share"] is None else f"{dataset['share']:.3g}")
    return text + (f", share {share}" if show_share and share is not None else "")
