"""``energon doctor``: examine this machine and installation, and list what to change."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from loader.errors import escape_controls
from loader.inspect import format_bytes, print_table

from ...command import energon_command
from ...console import facts_of, output_console, print_json
from ...options import shared_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from loader.inspect import Advice, Checkup


@energon_command("doctor", takes_path=False)
@shared_options("json")
def doctor(*, as_json: bool) -> None:
    """Show versions, limits and disks that loading depends on, and what would break or slow it down.

    It examines the packages and extras, the GPUs, the cores and memory that the container allows, the limits of open
    files and locked memory, /dev/shm, the folder of temporary files and the cache of remote data (ENERGON_CACHE_DIR).

    Exits with 1 if there is something to change. Run it where training runs: inside of the container or job.

    Examples:
        Examine this machine:
            energon doctor
        Stop a job before it starts on a machine with a fault:
            energon doctor --json > /data/run/doctor.json
    """
    from loader.inspect import Advice, examine_machine

    from ...installation import installation_faults

    # Examine the machine, and the installation of this program.
    checkup = examine_machine()
    advice = list(checkup.advice)
    for fault in installation_faults():
        message, _, hint = fault.message.partition("\n  hint: ")
        severity: Any = "error" if fault.breaks else "warning"
        advice.append(Advice(severity=severity, subject="installation", message=message, hint=hint))
    # Report; anything to change makes the exit code 1.
    if as_json:
        print_json(_document(checkup, advice))
    else:
        from rich.text import Text

        console = output_console()
        _show_facts(console, checkup)
        console.print()
        for finding in advice:
            style = "red" if finding.severity == "error" else "yellow"
            text = escape_controls(finding.message, keep="\n")
            console.print(Text.assemble((f"{finding.severity:<7} {finding.subject}", style), f": {text}"))
            console.print(Text(f"  hint: {escape_controls(finding.hint)}"))
        if not advice:
            console.print("no findings", style="green")
    if advice:
        raise click.exceptions.Exit(1)


def _document(checkup: Checkup, findings: Sequence[Advice]) -> dict[str, Any]:
    cache = checkup.cache
    limits = " ".join(f"limits.{field.name}" for field in fields(checkup.limits))
    return facts_of(
        checkup,
        f"installed.toolkit installed.python packages=installed.required extras gpus {limits} temporary cache findings",
        extras={name: {"missing": missing} for name, missing in checkup.installed.extras.items()},
        cache=cache and facts_of(cache, "path=folder limit_bytes disk", disk=checkup.cache_disk),
        findings=findings,
    )


def _show_facts(console: Console, checkup: Checkup) -> None:
    from rich.columns import Columns
    from rich.text import Text

    installed = checkup.installed
    packages = [f"{name} {version or '(missing)'}" for name, version in installed.required.items()]
    extras = [f"{name} (missing: {', '.join(lacks)})" if lacks else name for name, lacks in installed.extras.items()]
    missing = ",".join(name for name, lacks in installed.extras.items() if lacks)
    wanted = f"pip install 'energon-toolkit[{missing}]'" if missing else "nothing: all extras are here"
    facts: list[tuple[str, Any]] = [
        *_lines(checkup),
        ("packages", Columns(map(Text, packages), equal=True, column_first=True, padding=(0, 2))),
        ("extras", Columns(map(Text, extras), equal=True, column_first=True, padding=(0, 2))),
        ("to install", wanted),
    ]
    print_table(console, ("", ""), [(Text(label, style="cyan"), value) for label, value in facts])


def _lines(checkup: Checkup) -> Iterator[tuple[str, str]]:
    # Versions and GPUs.
    installed, limits = checkup.installed, checkup.limits
    yield "energon-toolkit", installed.toolkit
    yield "python", installed.python
    yield "GPUs", "; ".join(checkup.gpus) or "none that nvidia-smi lists"
    # What this process may use: a container often allows less than the machine has.
    quota = "" if limits.cgroup_cores is None else f", time of {limits.cgroup_cores:g} by the control group"
    yield "cores", f"{limits.usable_cores} of {limits.machine_cores}{quota}"
    memory = "not known" if limits.memory_bytes is None else format_bytes(limits.memory_bytes)
    if limits.cgroup_memory_bytes is not None:
        memory += f", {format_bytes(limits.cgroup_memory_bytes)} by the control group"
    yield "memory", memory
    hard = "no limit" if limits.open_files_hard is None else f"{limits.open_files_hard:,}"
    yield "open files", "no limit" if limits.open_files is None else f"{limits.open_files:,}, may be raised to {hard}"
    locked = limits.locked_memory_bytes
    yield "locked memory", "no limit" if locked is None else format_bytes(locked)
    # Disks, and the cache.
    for label, disk in (("shared memory", limits.shared_memory), ("temporary files", checkup.temporary)):
        if disk is None:
            yield label, "missing"
        else:
            yield label, f"{format_bytes(disk.free_bytes)} of {format_bytes(disk.total_bytes)} free in {disk.path}"
    if checkup.cache is None:
        yield "cache", "off (set ENERGON_CACHE_DIR to keep remote shards on a local disk)"
    else:
        free = "" if checkup.cache_disk is None else f", {format_bytes(checkup.cache_disk.free_bytes)} free"
        yield "cache", f"{checkup.cache.folder}{free}"
