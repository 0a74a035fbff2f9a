"""A loader leaves nothing in shared memory, in the temporary directory or on the terminal, also if it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked_scripts import ForkedScripts
from tests.unit.pipeline.tar_dataset import texts, write_dataset

ROOT = Path(__file__).parents[2]

PROGRAM = """
import multiprocessing, sys, time
from pathlib import Path
from loader import WorkerConfig, get_loader, get_train_dataset

if __name__ == "__main__":
    path, method, mark, prefix = sys.argv[1:]
    multiprocessing.current_process()._config["semprefix"] = "/" + prefix  # as Python names its semaphores
    config = WorkerConfig(rank=0, world_size=1, num_workers=2)
    dataset = get_train_dataset(path, batch_size=2, shuffle_buffer_size=None, max_samples_per_sequence=5,
                                worker_config=config)
    Path(mark + ".building").touch()
    loader = get_loader(dataset, multiprocessing_context=method)
    loader.start()
    Path(mark + ".started").touch()
    for number, _ in enumerate(loader):
        if number == 5:
            Path(mark + ".running").touch()
        time.sleep(0.001)
"""


@pytest.fixture
def temporary() -> Iterator[Path]:
    # In a path as long as that of tmp_path, Python's fork server cannot have a socket.
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["started", "running"])
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_killed_loader_leaves_no_name(tmp_path: Path, temporary: Path, method: str, moment: str) -> None:
    data = write_dataset(tmp_path / "data", {"a.tar": texts(0, 20)})
    script, mark = tmp_path / "program.py", tmp_path / "mark"
    script.write_text(PROGRAM)
    prefix = f"kill{os.getpid()}{method}{moment}"
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    program = subprocess.Popen(
        [sys.executable, str(script), str(data), method, str(mark), prefix],
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": paths, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
        start_new_session=True,
    )
    reached = Path(f"{mark}.{moment}")
    while not reached.exists():
        assert program.poll() is None
        time.sleep(0.001)
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    assert [name for name in os.listdir("/dev/shm") if prefix in name] == []
    assert [str(path.relative_to(temporary)) for path in temporary.rglob("*")] == []


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_loader_that_ends_leaves_no_name_and_prints_nothing(tmp_path: Path, temporary: Path, method: str) -> None:
    data = write_dataset(tmp_path / "data", {"a.tar": texts(0, 20)})
    script, mark = tmp_path / "program.py", tmp_path / "mark"
    script.write_text(PROGRAM.replace("        time.sleep(0.001)\n", "        break\n"))
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    program = subprocess.run(
        [sys.executable, str(script), str(data), method, str(mark), f"end{os.getpid()}{method}"],
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": paths, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (program.returncode, program.stdout, program.stderr) == (0, "", "")
    assert [str(path.relative_to(temporary)) for path in temporary.rglob("*")] == []


RUNNING = """
from loader import WorkerConfig, get_loader, get_train_dataset

if __name__ == "__main__":
    path, workers, *kind = {arguments}
    config = WorkerConfig(rank=0, world_size=1, num_workers=int(workers))
    dataset = get_train_dataset(path, batch_size=2, shuffle_buffer_size=10, max_samples_per_sequence=5,
                                worker_config=config)
    loader = get_loader(dataset, worker_type=kind[0] if kind else None)
    batches = iter(loader)
    batch = next(batches)
"""


@pytest.mark.parametrize("workers", [("0",), ("2", "main"), ("2", "thread"), ("2", "fork")])
@pytest.mark.sampled(3)
def test_a_program_that_ends_within_an_iteration_prints_nothing(
    scripts: ForkedScripts, tmp_path: Path, workers: tuple[str, ...]
) -> None:
    data = write_dataset(tmp_path / "data", {"a.tar": texts(0, 20)})
    script = tmp_path / "program.py"
    script.write_text(RUNNING.format(arguments=[str(data), *workers]))
    assert scripts.run(script, folder=tmp_path, whole_end=True) == ""
    assert script.with_suffix(".err").read_text() == ""


def test_a_script_that_ends_as_it_is_prints_nothing(scripts: ForkedScripts, tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", {"a.tar": texts(0, 20)})
    script = tmp_path / "program.py"
    script.write_text(RUNNING.format(arguments=[str(data), "0"]).replace('if __name__ == "__main__":', "if True:"))
    assert scripts.run(script, folder=ROOT, whole_end=True) == ""
    assert script.with_suffix(".err").read_text() == ""


HELD_TO_THE_END = """
import sys, types
from loader import WorkerConfig, get_loader, get_train_dataset
from loader.storage import open_storage

config = WorkerConfig(rank=0, world_size=1, num_workers=0)
dataset = get_train_dataset({data!r}, batch_size=2, shuffle_buffer_size=None, max_samples_per_sequence=5,
                            worker_config=config)
types.held = iter(get_loader(dataset))  # this module outlives those that close a lane
next(types.held)
sys._held = open_storage({data!r}).open("a.tar")
del sys.modules["loader.storage.local"]  # whose functions the file needs
"""


def test_a_loader_and_a_file_that_are_never_closed_print_nothing_at_the_exit(
    scripts: ForkedScripts, tmp_path: Path
) -> None:
    data = write_dataset(tmp_path / "data", {"a.tar": texts(0, 20)})
    script = tmp_path / "program.py"
    script.write_text(HELD_TO_THE_END.format(data=str(data)))
    assert scripts.run(script, folder=ROOT, whole_end=True) == ""
    assert script.with_suffix(".err").read_text() == ""
