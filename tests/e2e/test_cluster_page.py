"""The scripts of the page about clusters run as they are there, with a ``sbatch`` that runs its jobs at once."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from loader.dataset.opening import folder_at
from tests.e2e.cluster_tasks import QUALITY, columns_of
from tests.e2e.dataset_tree import copy_of, prepare, write_shards
from tests.pages import blocks, commands, executable, put_energon_on_path
from tests.source_tree import ROOT

PAGE = (ROOT / "docs/how-to/on-a-cluster.md").read_text(encoding="utf-8")
SHARE, MERGE, PREPARE, MAP, STEPS, RAY, DASK = blocks(PAGE, "bash")
SHARES = 4
"""Instead of 64, to save time."""

SBATCH = f"""#!{sys.executable}
# Run the tasks of a job one after another, with the variables that SLURM sets.
import os, re, subprocess, sys
position = next(number for number, word in enumerate(sys.argv) if number and word.endswith(".sh"))
script, arguments = sys.argv[position], sys.argv[position + 1 :]
options = re.findall("#SBATCH (.*)", open(script).read()) + sys.argv[1:position]
given = dict(option.lstrip("-").partition("=")[::2] for option in options)
nodes = given.get("nodes", "1")
tasks = given.get("ntasks", nodes)
variables = {{"SLURM_CPUS_PER_TASK": given["cpus-per-task"], "SLURM_NTASKS": tasks, "SLURM_NNODES": nodes}}
numbers = []
for item in filter(None, given.get("array", "").split(",")):
    first, _, last = item.partition("-")
    numbers += range(int(first), int(last or first) + 1)
for number in numbers or [None]:
    if number is not None:
        array = {{"ID": number, "COUNT": len(numbers), "MIN": min(numbers), "MAX": max(numbers)}}
        variables |= {{f"SLURM_ARRAY_TASK_{{name}}": str(value) for name, value in array.items()}}
    command = ["timeout", "120", "bash", script, *arguments]
    subprocess.run(command, check=True, env={{**os.environ, **variables}}, stdout=sys.stderr)
print(4711)
"""

SRUN = f"""#!{sys.executable}
# Run the processes of a step, all on this machine, and end them when this one is ended.
import os, signal, subprocess, sys
words = [word for word in sys.argv[1:] if not word.startswith(("--nodes", "--exclude"))]
asked = [word.partition("=")[2] for word in sys.argv if word.startswith("--nodes=")]
count = int(asked[0] if asked else os.environ["SLURM_NTASKS"])
step = {{"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(count)}}
tasks = [
    subprocess.Popen(words, env={{**os.environ, **step, "SLURM_PROCID": str(rank)}}) for rank in range(count)
]
signal.signal(signal.SIGTERM, lambda *_: [task.terminate() for task in tasks])
sys.exit(max([task.wait() for task in tasks]))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten shards, in a folder with the scripts of the page; commands find ``energon``, ``sbatch`` and ``srun``."""
    executable(tmp_path / "bin/sbatch", SBATCH)
    executable(tmp_path / "bin/srun", SRUN)
    put_energon_on_path(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("PATH", os.pathsep.join([os.environ["PATH"], os.path.dirname(sys.executable)]))
    (tmp_path / "quality.py").write_text(QUALITY.replace("HOLD", "'no such file'"))
    (tmp_path / "share.sh").write_text(SHARE.replace("64", str(SHARES)))
    (tmp_path / "merge.sh").write_text(MERGE)
    (tmp_path / "steps.sh").write_text(STEPS)
    return write_shards(tmp_path / "my_dataset", 10)


def run(folder: Path, script: str) -> str:
    text = script.replace("/data/my_dataset", str(folder))
    done = subprocess.run(["bash", "-euc", text], cwd=folder.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def mapped_alone(folder: Path) -> dict[str, bytes]:
    """Return the columns of a copy that one process maps."""
    alone = copy_of(folder, folder.parent / "alone")
    prepare(alone)
    run(alone, "energon map /data/my_dataset quality:score --write score --num-workers 1")
    return columns_of(alone)


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


@needs_bash
def test_the_slurm_scripts_prepare_and_map_the_dataset(folder: Path) -> None:
    output = run(folder, PREPARE)
    assert output.count("scanned share ") == SHARES
    assert len(folder_at(folder).index) == 30
    assert folder_at(folder).documents.split is not None
    output = run(folder, MAP)
    assert [f"share {number}/{SHARES} is done" in output for number in (1, 2, 3, 4)] == [True] * SHARES
    assert columns_of(folder) == mapped_alone(folder)


@needs_bash
def test_the_processes_of_the_steps_of_an_array_have_a_share_each(folder: Path) -> None:
    prepare(folder)
    output = run(folder, MAP.replace("share.sh", "steps.sh"))
    assert [f"share {number}/4 is done" in output for number in (1, 2, 3, 4)] == [True] * 4
    assert columns_of(folder) == mapped_alone(folder)


@pytest.mark.slow
@needs_bash
@pytest.mark.parametrize("package", ["ray", "distributed"])
def test_the_scripts_of_ray_and_dask_map_the_dataset(
    folder: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    (folder.parent / "token").write_text("0123456789abcdef" * 4)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(folder.parent / "token"))  # not that of the user
    prepare(folder)
    with socket.socket() as unused:
        unused.bind(("", 0))
        port = str(unused.getsockname()[1])
    script = {"ray": RAY, "distributed": DASK}[package].replace("6379", port).replace("per-task=8", "per-task=1")
    # Less memory, and no other ports of machines where such a cluster runs already.
    script = script.replace("--include-dashboard=false", "--include-dashboard=false --object-store-memory=80000000")
    script = script.replace("dask scheduler ", "dask scheduler --port 0 --dashboard-address :0 ")
    script = script.replace("dask worker ", "dask worker --dashboard-address :0 ")
    (folder.parent / "cluster.sh").write_text(script)
    run(folder, "sbatch cluster.sh map /data/my_dataset quality:score --write score")
    assert columns_of(folder) == mapped_alone(folder)


def test_the_shares_of_the_first_examples_are_run_and_merged(folder: Path) -> None:
    prepares, maps, *_ = blocks(PAGE, "console")
    output = run(folder, "\n".join(commands(prepares)))
    assert f"prepared {folder}: 30 samples in 10 shards" in output
    (folder / ".nv-meta/dataset.yaml").unlink()  # samples are dictionaries then
    run(folder, "\n".join(commands(maps)))
    assert columns_of(folder) == mapped_alone(folder)


def test_the_executor_of_the_page_prepares_the_dataset(folder: Path) -> None:
    script = folder.parent / "script.py"
    script.write_text(blocks(PAGE, "python")[0].replace("/data/my_dataset", str(folder)))
    assert run(folder, f"{sys.executable} {script}") == "10 30\n"
