"""Clusters that are killed while a command runs on them, and a Ray that asks for its token."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.cluster_tasks import columns_of, datasets, energon, finish
from tests.processes import wait_until

pytestmark = pytest.mark.slow

# Each prints its address, and ends when its input does.
RAY = """
import sys
from ray.cluster_utils import Cluster

node = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=node)
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
DASK = """
import os, sys
from distributed import LocalCluster

if __name__ == "__main__":
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    cluster = LocalCluster(**options)
    print("address", cluster.scheduler_address, flush=True)
    sys.stdin.read()
    os._exit(9)
"""
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 2}


@contextmanager
def killable(script: Path, **variables: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Run a cluster in the block; yield its address, and a function that kills it."""
    environment = {**os.environ, **variables}
    process = subprocess.Popen(
        [sys.executable, script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def kill() -> None:
        process.communicate()

    try:
        assert process.stdout is not None
        yield next(line for line in process.stdout if line.startswith("address ")).split()[1], kill
    finally:
        if process.returncode is None:
            kill()


@pytest.mark.parametrize(("engine", "package", "source"), [("ray", "ray", RAY), ("dask", "distributed", DASK)])
def test_a_command_names_a_cluster_that_is_killed_and_continues(
    engine: str, package: str, source: str, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    alone, mapped = datasets(tmp_path, 2)
    (tmp_path / "hold").touch()
    (tmp_path / "cluster.py").write_text(source)
    line = ("map", mapped, "quality:score", "--write", "score", "--json")
    with killable(tmp_path / "cluster.py", **TOKEN) as (address, kill):
        on_cluster = (*line, "--engine", engine, "--address", address)
        if engine == "ray":
            output = finish(energon(*on_cluster, cwd=tmp_path), code=1)
            assert output.startswith("error: the Ray cluster asks for a token, and this command has none, or another")
            assert "hint: set RAY_AUTH_MODE=token" in output
        process = energon(*on_cluster, cwd=tmp_path, **TOKEN)
        wait_until(lambda: len([*mapped.rglob("*.result")]) == 3 or process.poll() is not None, timeout_s=100)
        kill()
        output = finish(process, code=1)
    # One error, and no lines of the cluster's own logs.
    lost = "the Ray cluster is lost: its head does" if engine == "ray" else "the cluster is lost: its scheduler has"
    assert output.startswith(f"error: {lost}")
    assert output.endswith("hint: start the cluster again; the same command continues where it stopped\n")
    assert len(output.splitlines()) <= 3
    (tmp_path / "hold").unlink()
    assert '"resumed": 3' in finish(energon(*line, cwd=tmp_path))
    finish(energon("map", alone, "quality:score", "--write", "score", cwd=tmp_path))
    assert columns_of(mapped) == columns_of(alone)
