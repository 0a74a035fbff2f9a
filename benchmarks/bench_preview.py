"""Measure how many pictures `energon preview` shows in a second while the key → is held.

usage: python benchmarks/bench_preview.py DATASET [SECONDS]

Runs the command in a terminal of 120 × 40 cells of 10 × 20 pixels, once for each way to draw a picture, and presses the
key 30 times a second, as keyboards repeat it. A machine that does other work shows fewer; compare the processor time.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pexpect
from pseudo_terminal import program_of

ANSWERS = {
    "kitty": "\x1b_Gi=31;OK\x1b\\\x1b[6;20;10t\x1b[1;2R\x1b[?62;c",
    "sixel": "\x1b[6;20;10t\x1b[1;2R\x1b[?62;4;22c",
    "half blocks": "\x1b[1;2R\x1b[?62;22c",
}
LAST_QUERY = "\x1b[c"
SCREEN_BEGINS = "\x1b[?2026h"
RIGHT = "\x1b[C"
REPEAT_S = 1 / 30


def main(dataset: str, seconds: float) -> None:
    print(f"{'drawn as':<12} {'pictures/s':>10} {'CPU ms each':>12} {'kB each':>8}")
    for method, answers in ANSWERS.items():
        shown, size, cpu_s = hold_key(dataset, answers, seconds)
        print(
            f"{method:<12} {shown / seconds:10.1f} {1000 * cpu_s / shown:12.0f} {size / shown / 1000:8.1f}", flush=True
        )


def hold_key(dataset: str, answers: str, seconds: float) -> tuple[int, int, float]:
    """Return the number of screens shown, their size in bytes, and the processor time of the command in seconds."""
    process = pexpect.spawn(program_of("energon"), ["preview", dataset], dimensions=(40, 120), encoding="utf-8")
    process.delaybeforesend = None  # pexpect waits for 50 ms otherwise
    process.expect_exact(LAST_QUERY)
    process.send(answers)
    process.expect_exact(SCREEN_BEGINS, timeout=60)
    before = processor_s(process)
    shown = size = 0
    start = press_at = time.monotonic()
    while (now := time.monotonic()) < start + seconds:
        if now >= press_at:
            process.send(RIGHT)
            press_at += REPEAT_S
        try:
            output = process.read_nonblocking(1 << 20, timeout=max(0, press_at - now))
        except pexpect.TIMEOUT:
            continue
        shown += output.count(SCREEN_BEGINS)
        size += len(output)
    spent = processor_s(process) - before
    process.close(force=True)
    return shown, size, spent


def processor_s(process: pexpect.spawn[str]) -> float:
    """Return the processor time of all threads of a process."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) == 3 else 10)
