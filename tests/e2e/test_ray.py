"""Tasks and commands on Ray: a local cluster of two nodes with one worker each."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loader import open_dataset
from loader.engine.ray_executor import RayEngine
from loader.errors import FormatError, WorkerError
from tests.cli.run_energon import RunEnergon, run_in_this_process
from tests.e2e.cluster_tasks import (
    SECRET,
    SQUARES,
    check_ends_of_workers,
    columns_of,
    datasets,
    energon,
    environment_of,
    finish,
    squares,
    tasks_in,
)
from tests.e2e.dataset_tree import copy_of, write_shards, written
from tests.e2e.test_convert_shares import files_of
from tests.processes import wait_until
from tests.unit.convert.importing.test_run import write_photos

pytestmark = [
    pytest.mark.slow,
    # Ray leaves files and sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

GPUS = """
import os, time

class Devices:
    def __init__(self):
        os.makedirs(FOLDER, exist_ok=True)
        open(os.path.join(FOLDER, str(os.getpid())), "w").close()
        end = time.monotonic() + 30
        while len(os.listdir(FOLDER)) < 2 and time.monotonic() < end:  # so that no worker takes all tasks
            time.sleep(0.01)

    def __call__(self, sample):
        return {"gpus": os.environ["CUDA_VISIBLE_DEVICES"], "process": os.getpid()}
"""

# GPUs are only declared: Ray deals their numbers, and no program uses them.
NODE = {"num_cpus": 1, "num_gpus": 2, "object_store_memory": 80 << 20, "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes on this machine, which know nothing of the folders and secrets of a command."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()


def test_tasks_of_killed_workers_are_repeated(cluster: Any, tmp_path: Path) -> None:
    tasks = tasks_in(tmp_path / "runs", {2: ("killed", 2), 7: ("killed", 1), 5: ("killed later", 1)})
    with RayEngine.open(cluster.address, None, 0.0) as engine:
        assert squares(tmp_path, tasks, engine) == SQUARES
    assert (tmp_path / "runs/2").stat().st_size == 3
    assert (tmp_path / "runs/5").stat().st_size == 2


def test_the_third_death_of_a_task_is_an_error_that_names_it(cluster: Any, tmp_path: Path) -> None:
    tasks = tasks_in(tmp_path / "runs", {6: ("killed", 3)})
    with RayEngine.open(cluster.address, 2, 0.0) as engine:
        with pytest.raises(
            WorkerError,
            match=r"a task failed while it worked on \(6, .*: BrokenExecutor: its worker process has ended",
        ):
            squares(tmp_path, tasks, engine)
        assert squares(tmp_path, tasks, engine) == SQUARES  # it continues


def test_calls_that_end_their_workers_are_failures_of_their_samples(cluster: Any, tmp_path: Path) -> None:
    with RayEngine.open(cluster.address, 2, 0.0) as engine:
        check_ends_of_workers(tmp_path, engine)


def test_an_error_of_the_function_comes_with_its_fields_and_no_secret_travels(cluster: Any) -> None:
    with RayEngine.open(cluster.address, 5, 0.0) as engine:  # more than the cluster has room for
        with pytest.raises(FormatError) as caught:
            list(engine.run(_damaged, range(4)))
        assert caught.value.shard == "a.tar"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
            for _, environment in engine.run(environment_of, range(4)):
                assert SECRET not in environment.values()


def _damaged(number: int) -> int:
    raise FormatError("it is damaged", shard="a.tar", offset=number)


def test_a_prepare_and_a_map_write_the_files_of_one_process(cluster: Any, tmp_path: Path) -> None:
    # A prepare.
    one = write_shards(tmp_path / "one", 30)
    other = copy_of(one, tmp_path / "other")
    flags = ("--non-interactive", "--split-ratio", "2,1")
    ray = ("--engine", "ray", "--address", cluster.address)
    finish(energon("prepare", one, *flags, cwd=tmp_path))
    finish(energon("prepare", other, *flags, *ray, cwd=tmp_path))
    assert written(other) == written(one)
    # A map, whose function is in the working folder of the command.
    alone, mapped = datasets(tmp_path, 2)
    finish(energon("map", alone, "quality:score", "--write", "score", cwd=tmp_path))
    output = finish(energon("map", mapped, "quality:score", "--write", "score", *ray, "--json", cwd=tmp_path))
    assert output.startswith("{")
    assert columns_of(mapped) == columns_of(alone)


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    return run_in_this_process(capfd, monkeypatch)


def test_an_import_an_export_and_a_lint_give_what_one_process_does(
    cluster: Any, tmp_path: Path, here: RunEnergon
) -> None:
    imported, exported = tmp_path / "import.one", tmp_path / "export.one"
    options = ("--yes", "--samples-per-shard", 3, "--shuffle", "--split-ratio", "1")
    ray = ("--engine", "ray", "--address", cluster.address)
    # The same files.
    photos = write_photos(tmp_path / "photos", 12)
    for dest, engine in ((imported, ()), (tmp_path / "import.ray", ray)):
        done = here("import", photos, dest, *options, *engine)
        assert done.code == 0, done.err
    assert files_of(tmp_path / "import.ray") == files_of(imported)
    for dest, engine in ((exported, ()), (tmp_path / "export.ray", ray)):
        done = here("export", imported, dest, "--format", "jsonl", *engine)
        assert done.code == 0, done.err
    assert (tmp_path / "export.ray").read_bytes() == exported.read_bytes()
    # The same findings.
    shard = min(imported.glob("*.tar"))
    shard.write_bytes(shard.read_bytes()[:-2000])
    documents = [here("lint", imported, "--json", *engine).json | {"seconds": 0} for engine in ((), ray)]
    assert documents[0] == documents[1]
    assert documents[0]["findings"]


def test_each_worker_sees_the_gpus_that_ray_has_reserved_for_it(cluster: Any, tmp_path: Path) -> None:
    # By the command, which starts as many workers as the GPUs serve.
    [mapped] = datasets(tmp_path, 1)
    (tmp_path / "gpus.py").write_text(GPUS.replace("FOLDER", repr(str(tmp_path / "seen"))))
    command = ("map", mapped, "gpus:Devices", "--write", "gpus,process", "--task-samples", 1, "--gpus-per-worker", 2)
    finish(energon(*command, "--engine", "ray", "--address", cluster.address, cwd=tmp_path))
    columns = open_dataset(mapped).columns
    seen = {*zip(columns["process"][:].tolist(), columns["gpus"][:].tolist(), strict=True)}
    assert [gpus for _, gpus in seen] == ["0,1", "0,1"]
    assert len({process for process, _ in seen}) == 2
    # By the library; workers may share one.
    with RayEngine.open(cluster.address, 2, 0.5) as engine:
        variables = [each for _, each in engine.run(environment_of, range(4))]
    assert {each["CUDA_VISIBLE_DEVICES"] for each in variables} <= {"0", "1"}


def test_an_interrupted_map_continues_and_no_secret_is_logged(cluster: Any, tmp_path: Path) -> None:
    alone, mapped = datasets(tmp_path, 2)
    (tmp_path / "hold").touch()
    line = ("map", mapped, "quality:score", "--write", "score", "--json")
    ray = ("--engine", "ray", "--address", cluster.address)
    process = energon(*line, *ray, cwd=tmp_path, AWS_SECRET_ACCESS_KEY=SECRET)
    try:
        wait_until(lambda: len([*mapped.rglob("*.result")]) == 3 or process.poll() is not None, timeout_s=100)
    finally:
        process.send_signal(signal.SIGINT)
    finish(process, code=130)
    (tmp_path / "hold").unlink()
    output = finish(energon(*line, cwd=tmp_path))
    assert '"resumed": 3' in output
    finish(energon("map", alone, "quality:score", "--write", "score", cwd=tmp_path))
    assert columns_of(mapped) == columns_of(alone)
    logs = Path(cluster.head_node.get_session_dir_path()) / "logs"
    texts = [path.read_bytes() for path in logs.rglob("*") if path.is_file()]
    assert texts
    assert not any(SECRET.encode() in text for text in texts)


def test_a_cluster_that_is_not_there_or_has_no_room_is_named(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from loader.engine import ray_executor

    monkeypatch.setattr(ray_executor, "_WORKERS_S", 1)
    with (
        pytest.raises(WorkerError, match="the Ray cluster has started no worker after 1 s"),
        RayEngine.open(cluster.address, 1, 3),
    ):
        pass
    monkeypatch.setenv("RAY_ADDRESS", "there")
    for address, expected in (("here", "here"), (None, "there")):
        with (
            pytest.raises(WorkerError, match="cannot connect to the Ray cluster") as caught,
            RayEngine.open(address, 1, 0.0),
        ):
            pass
        assert f"at: {expected}" in str(caught.value)


def test_the_tasks_of_a_node_that_vanishes_are_repeated(cluster: Any, tmp_path: Path) -> None:
    # In their first runs, two tasks hold both nodes, until one node is removed and the other one's worker ends itself.
    tasks = tasks_in(tmp_path / "runs", {0: ("killed later", 1), 1: ("killed later", 1)})
    with RayEngine.open(cluster.address, 2, 0.0) as engine:

        def remove_node() -> None:
            wait_until(lambda: (tmp_path / "runs/0").exists() and (tmp_path / "runs/1").exists())
            cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)

        thread = threading.Thread(target=remove_node)
        thread.start()
        assert squares(tmp_path, tasks, engine) == SQUARES
        thread.join()
    assert [(tmp_path / "runs" / name).stat().st_size for name in "01"] == [2, 2]
