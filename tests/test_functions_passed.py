"""Batches and commands pass few functions, so that a newcomer can follow them; benchmarks/count_files.py lists them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.source_tree import ROOT
from tests.test_architecture import BUDGET


def test_a_default_batch_and_commands_pass_few_functions() -> None:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "benchmarks/count_files.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts = {way: int(count) for way, count in re.findall(r"^(\w+): (\d+) functions in ", done.stdout, re.MULTILINE)}
    limits = BUDGET["functions_passed"]
    assert counts.keys() == limits.keys(), done.stdout
    assert not {way: count for way, count in counts.items() if count > limits[way]}
