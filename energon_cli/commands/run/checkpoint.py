"""``energon checkpoint``: describe saved states, and convert them to other ranks or another mix of datasets."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from loader.errors import EnergonError, StateError, escape_controls, plural

from ...command import CONTEXT_SETTINGS, LazyCommand, LazyGroup, add_common_options, energon_command
from ...console import facts_of, is_terminal, output_console, print_json, show_note, show_warning
from ...options import NUMBER, shared_options

if TYPE_CHECKING:
    from rich.console import Console

    from loader.training.states import Redistributed, RunState, StateFile


_MAX_STATES_SHOWN = 200  # of a file
_FILE_FACTS = "path form fault states"
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
    from loader.training.states import describe_run, describe_state, group_by_run, place_text

    # Describe the states of each file, and keep them for the runs that they belong to.
    documents: list[dict[str, Any]] = []
    states: list[tuple[str, RunState]] = []
    for path, file in read_state_files(files):
        if isinstance(file, EnergonError):
            documents.append(facts_of(None, _FILE_FACTS, path=path, form=None, fault=str(file), states=[]))
            continue
        placed = [(place_text(found_state.place), found_state.state) for found_state in file.states]
        described = [{"place": address, **describe_state(state)} for address, state in placed]
        documents.append(facts_of(file, _FILE_FACTS, path=path, fault=None, states=described))
        states += [(f"{path}: {address}", state) for address, state in placed]
    # Describe the runs, from the states of all their ranks.
    runs = [
        {"states": [where for where, _ in run], **describe_run([state for _, state in run])}
        for run in group_by_run(states)
    ]
    facts = {"files": documents, "runs": runs}
    if as_json:
        print_json(facts)
    else:
        _show(output_console(), facts)
    if any(file["fault"] for file in documents) or any(run["fault"] and not run["missing_ranks"] for run in runs):
        raise click.exceptions.Exit(1)


# -------------------------------------------------------------------------------------------------------- output


def _show(console: Console, facts: dict[str, Any]) -> None:
    from rich.text import Text

    for file in facts["files"]:
        console.print(Text(escape_controls(file["path"]), style="bold"))
        if file["fault"]:
            console.print(Text(escape_controls(f"  error: {file['fault']}", keep="\n"), style="red"))
        for state in file["states"][:_MAX_STATES_SHOWN]:
            place = f" at {state['place']}" if state["place"] else ""
            console.print(_line(f"  state of rank {state['rank']} of {state['ranks']}{place}"))
        if (more := len(file["states"]) - _MAX_STATES_SHOWN) > 0:
            console.print(f"  … and {plural(more, 'more state')}; --json lists them")
    for run in facts["runs"]:
        console.print()
        console.print(Text(_headline(run), style="bold"))
        for label, value in _lines(run):
            console.print(Text.assemble((f"{label:<12}", "cyan"), _line(value)))


def _line(text: str) -> str:
    """Return a text without control characters; a hostile file has texts of a hundred megabytes."""
    return escape_controls(text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} …")


def _headline(run: dict[str, Any]) -> str:
    ranks = f"a run of {plural(run['ranks'], 'rank')}"
    if run["missing_ranks"]:
        missing = ", ".join(map(str, run["missing_ranks"][:10])) + ", …" * (len(run["missing_ranks"]) > 10)
        return f"{ranks}; missing ranks: {missing}"
    return f"{ranks}, all present"


def _lines(run: dict[str, Any]) -> list[tuple[str, str]]:
    # The position and the shape of the run.
    lines = []
    if run["fault"] and not run["missing_ranks"]:
        lines.append(("error", run["fault"]))
    lines += [
        ("next", f"micro-batch {run['batch']:,} of the run" + (", after the end of the pass" if run["ended"] else "")),
        ("resumes on", _possible(run["possible_ranks"])),
        ("lanes", f"{run['lanes']:,}, {run['lanes_begun']:,} started"),
        ("kind", _KINDS.get(run["kind"], "unknown")),
        ("seed", str(run["seed"])),
    ]
    # What only some runs have: counters, passes and buffers.
    if run["steps"]:
        lines.append(("counted", f"{', '.join(map(str, run['steps']))} (virtual epochs, limits, repeats)"))
    if run["passes"]:
        lines.append(("passes", f"restarted {plural(run['passes'], 'time')}"))
    if run["samples_waiting"]:
        lines.append(("waiting", f"{plural(run['samples_waiting'], 'sample')} in buffers"))
    lines.append(("stages", " → ".join(_stage(stage) for stage in reversed(run["stages"]))))
    # Its data, and the changes of its mix.
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
        return "any number of ranks"
    return f"{', '.join(map(str, ranks[:-1]))} or ".removeprefix(" or ") + plural(ranks[-1], "rank")


def _stage(stage: dict[str, Any]) -> str:
    name, settings = stage["name"], stage["settings"]
    size = settings.get("batch_size", settings.get("buffer_size")) if isinstance(settings, dict) else None
    return name if size is None else f"{name} ({size})"


def _dataset(dataset: dict[str, Any], *, show_share: bool = False) -> str:
    samples = dataset["samples"]
    text = str(dataset["path"]) + (f", {dataset['split_part']}" if dataset["split_part"] else "")
    text += f": {plural(samples, 'sample')}" if isinstance(samples, int) else ""
    text += f", uuid {dataset['uuid']}" if dataset["uuid"] else ""
    share = dataset["schedule"] or (None if dataset["share"] is None else f"{dataset['share']:.3g}")
    return text + (f", share {share}" if show_share and share is not None else "")


_COMMANDS = {
    "info": LazyCommand(".run.checkpoint:info", "Show the progress of a run, and the ranks it can resume on."),
    "migrate": LazyCommand(".run.checkpoint:migrate", "Continue a saved run with an edited mix of datasets."),
    "redist": LazyCommand(".run.checkpoint:redist", "Convert the states of all ranks to another number of ranks."),
}
_EXAMPLES = (
    ("Show the progress of a run", "energon checkpoint info /data/run/step_1000"),
    (
        "Convert the states of a run to 16 ranks",
        "energon checkpoint redist /data/run/step_1000/*.pt /data/run/for_16_ranks --new-world-size 16",
    ),
)


@click.group(
    "checkpoint",
    cls=LazyGroup,
    lazy_commands=_COMMANDS,
    examples=_EXAMPLES,
    context_settings=CONTEXT_SETTINGS,
    no_args_is_help=True,
    short_help="Inspect and redistribute saved states.",
)
def checkpoint() -> None:
    """Inspect states that loaders saved, and convert them to another number of ranks or another mix of datasets.

    A state may be anywhere in a JSON file or a torch.save file, next to models and other data. No code in a file is
    run, and no tensor is loaded.
    """


add_common_options(checkpoint)


# Read the state files named on the command line.


def read_state_files(
    paths: Sequence[str], *, place: str | None = None, allow_edited: bool = False
) -> Iterator[tuple[str, StateFile | EnergonError]]:
    """Read files, and the files directly in folders; yield each path with its contents or an error.

    Files without a state are skipped in folders, since folders of checkpoints also contain models.
    """
    from loader.storage import EPath
    from loader.training.states import list_state_files, read_state_file

    where = f" at {place}" if place else ""
    for path in paths:
        # Read the file, or each file of the folder.
        is_folder = EPath(path).is_dir()
        states = 0
        for name in list_state_files(path) if is_folder else [path]:
            try:
                file = read_state_file(name, place=place, allow_edited=allow_edited)
            except EnergonError as error:
                yield name, error
                states += 1
                continue
            # A named file without a state is an error; in a folder, it is another kind of file.
            if file.states:
                yield name, file
            elif not is_folder:
                yield (
                    name,
                    StateError(
                        f"this file contains no state of a loader{where}",
                        at=name,
                        hint="save one with torch.save({'loader': loader.save_state_rank(), …}, path)",
                    ),
                )
            states += len(file.states)
        if is_folder and not states:
            yield path, StateError(f"no file in this folder contains a state of a loader{where}", at=path)


def read_states_to_convert(paths: Sequence[str], place: str | None, *, allow_edited: bool) -> list[StateFile]:
    """Read files as :func:`read_state_files` does; raise the first error."""
    files = []
    for _, file in read_state_files(paths, place=place, allow_edited=allow_edited):
        if isinstance(file, EnergonError):
            raise file
        files.append(file)
    return files


def note_dropped(done: Redistributed) -> None:
    """Show which contents of the files were not copied, and which files were renamed."""
    if done.set_aside:
        names = ", ".join(done.set_aside[:8]) + " …" * (len(done.set_aside) > 8)
        show_note(f"files of further ranks in {done.folder} were renamed: {names}")
    if done.left_out:
        names = ", ".join(done.left_out[:8]) + " …" * (len(done.left_out) > 8)
        show_note(f"not copied, since only states are written: {names}")


def written_files(done: Redistributed) -> str:
    """Return the number of new files, with their folder and names."""
    names = done.files[0] if len(done.files) == 1 else f"{done.files[0]} … {done.files[-1]}"
    return f"wrote {plural(len(done.files), 'file')} to {done.folder} ({names})"


# ``energon checkpoint migrate``: continue a saved run with an edited mix of datasets.


@energon_command("migrate", takes_path=False)
@click.argument("files", metavar="INPUT_FILES...", nargs=-1, required=True)
@click.argument("dataset", metavar="NEW_MIX")
@click.argument("output_path", metavar="DEST")
@shared_options("place", "task_encoder", "allow_edited_state", "trust_code", "force_overwrite", "json")
def migrate(
    files: tuple[str, ...],
    dataset: str,
    output_path: str,
    *,
    place: str | None,
    task_encoder: str | None,
    allow_edited_state: bool,
    trust_code: bool,
    force_overwrite: bool,
    as_json: bool,
) -> None:
    """Write the states of all ranks of a run, in INPUT_FILES, so that it continues with the metadataset NEW_MIX.

    Shows what becomes of each dataset. One that stays continues where it stopped: no sample is repeated or skipped. The
    states in DEST restore in a run with NEW_MIX, on any number of ranks, without allow_mix_change. INPUT_FILES
    stay as they are.

    A change that the run cannot follow exactly is refused, and so are states of a pass that ends. A run keeps the unit
    of its weights (blend_weight_unit). A nested blend with a new metric as its unit needs --task-encoder.

    Examples:
        Continue a run with other weights:
            energon checkpoint migrate /data/run/step_1000 /data/mix_2.yaml /data/run/step_1000_mix_2
    """
    from loader.inspect.runs import load_task_encoder, migrate_files

    read = read_states_to_convert(files, place, allow_edited=allow_edited_state)
    encoder = None if task_encoder is None else load_task_encoder(task_encoder)
    done = migrate_files(
        read, dataset, output_path, trust_code=trust_code, overwrite=force_overwrite, task_encoder=encoder
    )
    note_dropped(done.written)
    show_warning(*done.warnings, even_if_quiet=True)  # the states may be those of another run
    if as_json:
        print_json(facts_of(done, "written.batch datasets=leaves warnings written.folder written.files"))
        return
    console = output_console()
    for line in done.leaves:
        console.print(escape_controls(line))
    change = f"changes before micro-batch {done.written.batch:,}" if done.leaves else "has not changed"
    console.print(escape_controls(f"the mix {change}: {written_files(done.written)}"), style="green")


# ``energon checkpoint redist``: convert the states of a run to another number of ranks.


@energon_command("redist", takes_path=False)
@click.argument("files", metavar="INPUT_FILES...", nargs=-1, required=True)
@click.argument("output_path", metavar="DEST")
@click.option("--new-world-size", **NUMBER, help="Convert the states to this many ranks.")
@shared_options("place", "allow_edited_state", "force_overwrite", "json")
def redist(
    files: tuple[str, ...],
    output_path: str,
    *,
    new_world_size: int | None,
    place: str | None,
    allow_edited_state: bool,
    force_overwrite: bool,
    as_json: bool,
) -> None:
    """Convert the states of all ranks of a run, in INPUT_FILES, to another number of ranks.

    One file per rank becomes one file per new rank in the folder DEST, with similar names; each rank restores
    its own with loader.restore_state_rank(). A single file with a list of all states becomes a single file. Together,
    the new ranks continue with exactly the same batches.

    The new number must divide the number of lanes; energon checkpoint info lists the choices. Without --new-world-size,
    the command prompts for it. Only the states are written; other contents of INPUT_FILES are not copied. A checkpoint
    of Lightning is copied whole, with the states of its loaders replaced.

    Examples:
        Convert the states of a run to 16 ranks:
            energon checkpoint redist /data/run/step_1000/*.pt /data/run/for_16_ranks --new-world-size 16
        Convert all files of a folder:
            energon checkpoint redist /data/run/step_1000 /data/run/for_4_ranks --new-world-size 4
    """
    from loader.training.states import redistribute_files

    read = read_states_to_convert(files, place, allow_edited=allow_edited_state)
    done = redistribute_files(read, new_world_size or _prompt_for_ranks(read), output_path, overwrite=force_overwrite)
    note_dropped(done)
    if as_json:
        print_json(done)
        return
    text = f"converted {plural(done.ranks_before, 'rank')} to {done.ranks:,} at micro-batch {done.batch:,}: "
    text += written_files(done)
    output_console().print(escape_controls(text), style="green")


def _prompt_for_ranks(files: list[StateFile]) -> int:
    from loader.training.states import ranks_of_run

    possible = ranks_of_run(files[0].states[0].state)
    allowed = "any number" if possible is None else ", ".join(map(str, possible))
    try:
        asked: int = click.prompt(f"New number of ranks ({allowed})", type=click.IntRange(min=1), err=True)
    except click.Abort:
        if is_terminal(sys.stdin):
            raise KeyboardInterrupt from None  # click raises Abort for Ctrl-C and for the end of the input
        raise click.UsageError(f"Pass --new-world-size N; allowed: {allowed}.") from None
    return asked
