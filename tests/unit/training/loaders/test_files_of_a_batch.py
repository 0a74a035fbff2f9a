"""A default batch passes few files, so that a newcomer can follow it; benchmarks/count_files.py lists them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.source_tree import ROOT

MAX_FILES = 79  # with the face of the package, and the order that a small dataset such as the demo's is dealt in


def test_a_default_batch_passes_few_files() -> None:
    command = [sys.executable, "benchmarks/count_files.py"]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    total = re.search(r"^total: (\d+) files$", done.stdout, re.MULTILINE)
    assert total is not None, done.stdout
    assert int(total[1]) <= MAX_FILES, done.stdout
