"""A small sample passes few Python calls on its way to a batch; benchmarks/count_calls.py counts them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
MAX_CALLS = 12  # one for each of the reader's, the decoder's and the cooker's steps, and those of batches and chunks


def test_a_json_sample_with_a_cooker_costs_few_calls() -> None:
    command = [sys.executable, "benchmarks/count_calls.py"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    calls = {name: float(number) for name, number in re.findall(r"(.*): ([\d.]+) calls a sample", found)}
    assert calls.keys() == {"jsonl", "json in tar"}
    assert max(calls.values()) <= MAX_CALLS, found
