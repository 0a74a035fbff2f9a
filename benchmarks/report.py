"""Print tables, and describe the machine that the figures were measured on."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from processes import run


def print_table(cells: list[list[str]]) -> None:
    """Print cells as a Markdown table."""
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print("\n".join(lines))


def machine_facts(*programs: Path) -> dict[str, str | int]:
    """Describe the machine and the programs that the figures were measured with."""
    processor = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor[0].split(":")[1].strip() if processor else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "python": platform.python_version(),
        "programs": ", ".join(run([program, "--version"]).stdout.strip() for program in programs),
    }
