"""Maps give the same bytes on any number of workers, in shares, and after kills at any moment."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from energon_cli.main import main
from loader import open_dataset
from loader.engine import AlreadyDoneError, Engine, Share, ShareDone
from loader.errors import ConfigError, SampleError, StorageError
from loader.format.columns.column_record import column_path
from loader.format.dataset_ref import DatasetRef
from loader.mapping import MapReport, MapRequest, named_function, output_of, run_map, whole_dataset
from tests.e2e.dataset_tree import contents, prepare, write_shards
from tests.e2e.test_prepare_kills import every_call, in_child, kill_before
from tests.processes import has_processes, wait_until
from tests.small_disks import mounted_disk, read_only

FUNCTIONS = "tests.e2e.map_functions"
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "write": ("score", {"write": ["score"]}),
    "to_filter": ("is_odd", {"to_filter": "odd"}),
    "to_parts": ("new_text", {"to_parts": "out"}),
    "to_dataset": ("copies", {"to_dataset": "out"}),
}
SHARDS, SAMPLES = 4, 15


@dataclass(frozen=True)
class Mapped:
    """A dataset, and a map of it in one of the four forms."""

    folder: Path
    form: str

    @property
    def out(self) -> Path:
        return self.folder.parent / "out"

    def run(self, function: str = "", engine: Engine | None = None, **options: Any) -> MapReport:
        name, target = FORMS[self.form]
        choices = {key: str(self.out) if key in ("to_parts", "to_dataset") else value for key, value in target.items()}
        output, named = output_of(DatasetRef(str(self.folder)), **choices)
        request = MapRequest(
            source=whole_dataset(DatasetRef(str(self.folder))),
            function=named_function(f"{FUNCTIONS}:{function or name}"),
            output=output,
            target=named,
            engine=engine or Engine(),
            **{"task_samples": 4, **options},
        )
        return run_map(request)

    def files(self) -> dict[str, object]:
        """Return what the map has written, in comparable form."""
        files: dict[str, object] = {}
        for path in sorted(self.folder.glob(".nv-meta/columns/*")) + sorted(self.folder.glob(".nv-meta/filter_*")):
            files[path.name] = path.read_bytes()
        for path in [*sorted(self.out.glob("*.tar")), *sorted(self.out.glob(".nv-meta/*.yaml"))]:
            files[f"out/{path.name}"] = path.read_bytes()
        if (yaml := self.folder.parent / "out.yaml").exists():
            files["out.yaml"] = yaml.read_bytes()
        return files

    def left(self) -> list[str]:
        """Return the names of what should not be there after the end; a lock of a killed process holds nothing."""
        folders = [self.folder / ".nv-meta/.jobs", self.out / ".nv-meta/.jobs", self.out]
        names = [path.name for folder in folders for path in folder.glob("*")]
        return [name for name in names if not name.endswith((".tar", ".tar.idx", ".lock", ".nv-meta"))]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain") / "data"
    write_shards(folder, SHARDS, samples=SAMPLES)
    prepare(folder)
    return folder


Copied = Callable[..., Mapped]


def copies_of(dataset: Path, folder: Path) -> Copied:
    def copy(form: str = "write", name: str = "a") -> Mapped:
        return Mapped(Path(shutil.copytree(dataset, folder / name / "data")), form)

    return copy


@pytest.fixture
def copied(plain: Path, tmp_path: Path) -> Copied:
    """Return a function that copies the dataset for a form of map."""
    return copies_of(plain, tmp_path)


forms = pytest.mark.parametrize("form", FORMS)


@forms
@pytest.mark.sampled(6)
def test_workers_and_shares_make_the_same_bytes(form: str, copied: Copied) -> None:
    alone, workers, shares = copied(form, "alone"), copied(form, "workers"), copied(form, "shares")
    assert alone.run().samples == SHARDS * SAMPLES
    workers.run(engine=Engine(workers=2, forks=True))
    for share in (2, 1, 3):
        with pytest.raises(ShareDone):
            shares.run(engine=Engine(share=Share(share, 3)))
    shares.run(engine=Engine(merge=True))
    assert alone.files()
    assert alone.files() == workers.files() == shares.files()
    assert not alone.left() + workers.left() + shares.left()


@pytest.fixture
def few_copied(tmp_path: Path) -> Copied:
    """Do so with few samples."""
    write_shards(tmp_path / "few", 2, samples=6)
    prepare(tmp_path / "few")
    return copies_of(tmp_path / "few", tmp_path)


@every_call
@forms
@pytest.mark.sampled(6)
def test_a_kill_before_any_call_that_changes_the_disk(
    form: str, every: int, few_copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = few_copied(form, "whole")
    whole.run()
    call = every
    while True:
        mapped = few_copied(form, str(call))
        with monkeypatch.context() as patched:
            kill_before(call, patched)
            code = in_child(mapped.run)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        finish(mapped)
        assert mapped.files() == whole.files(), call
        call += every
    assert call > 30, "the map changes the disk at least so often"


def finish(mapped: Mapped) -> None:
    """Continue a map that was killed; its new dataset may be there already."""
    with suppress(AlreadyDoneError):
        mapped.run()
    assert not mapped.left()


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.slow)])
@forms
@pytest.mark.sampled(6)
def test_kills_of_workers_and_of_the_command_at_random_moments(form: str, kills: int, copied: Copied) -> None:
    whole, chance = copied(form, "whole"), random.Random(form)
    whole.run()
    expected, done, round_ = whole.files(), 0, 0
    while done < kills:
        mapped, is_finished = copied(form, str(round_)), False
        round_ += 1
        while not is_finished:
            child = start(mapped)
            time.sleep(chance.uniform(0, 0.3))
            killed = kill_something(child, chance)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            wait_until(lambda: not has_processes(child))  # noqa: B023 - called at once
            done += killed
            is_finished = code == 0 or (mapped.out / ".nv-meta/.info.json").exists()
        finish_if_begun(mapped)
        assert mapped.files() == expected


def start(mapped: Mapped) -> int:
    """Start a map with two workers in a process group of its own; return the number of the process."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        try:
            mapped.run(engine=Engine(workers=2, forks=True))
        except BaseException:  # noqa: BLE001 - no error may leave the fork
            os._exit(1)
        os._exit(0)
    return child


def kill_something(process: int, chance: random.Random) -> bool:
    """Kill a worker of a process, or the process with its workers; return False if it has ended."""
    try:
        workers = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        workers = []
    try:
        if workers and chance.random() < 0.5:
            os.kill(int(chance.choice(workers)), signal.SIGKILL)
        else:
            os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def finish_if_begun(mapped: Mapped) -> None:
    """Continue a map that was killed during its commit."""
    if mapped.left():
        finish(mapped)


@forms
@pytest.mark.sampled(6)
def test_tasks_span_small_shards_if_there_are_many(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shards(tmp_path / "small", 30, samples=1)
    prepare(tmp_path / "small")
    copied = copies_of(tmp_path / "small", tmp_path)
    alone, killed, shares = copied(form, "alone"), copied(form, "killed"), copied(form, "shares")
    assert alone.run().tasks == 30
    monkeypatch.setattr("loader.mapping.tasks._MANY_TASKS", 10)  # three shards each
    with monkeypatch.context() as patched:
        kill_before(18, patched)
        assert in_child(killed.run) == -signal.SIGKILL
    report = killed.run()
    assert report.tasks == 10 > report.resumed > 0
    for share in (1, 2):
        with pytest.raises(ShareDone):
            shares.run(engine=Engine(workers=2, forks=True, share=Share(share, 2)))
    shares.run(engine=Engine(merge=True))
    assert killed.files() == shares.files()
    if form in ("to_parts", "to_dataset"):  # a task has a shard for each split part
        assert without_shards(killed.out) == without_shards(alone.out)
        assert len([*killed.out.glob("*.tar")]) < len([*alone.out.glob("*.tar")])
    else:
        assert killed.files() == alone.files()


def without_shards(folder: Path) -> dict[str, Any]:
    return {key.partition("/")[2]: parts for key, parts in contents(folder).items()}


def test_a_sample_that_fails_has_no_value(copied: Copied) -> None:
    mapped = copied()
    with pytest.raises(SampleError, match=r"2 samples failed; --max-failures allows 0. First: .*/00004: ValueError"):
        mapped.run("fails_sometimes")
    assert not list(mapped.folder.glob(".nv-meta/columns/*"))
    failures = next(mapped.folder.glob(".nv-meta/.jobs/map-write-score/failures.jsonl")).read_text()
    assert '"key":"shard_000.tar/00004"' in failures
    report = mapped.run("fails_sometimes", max_failures=2)
    assert (report.failed, report.skipped, report.resumed) == (2, 1, 2)
    assert [failure.sample for failure in report.failures] == [4, 6]
    assert mapped.folder.joinpath(column_path("score", ".valid.npy")).exists()
    column = open_dataset(mapped.folder).select(where="score >= 0")
    assert len(column) == SHARDS * SAMPLES - 3


def test_secrets_of_a_failure_are_neither_stored_nor_shown(
    copied: Copied, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    mapped = copied()
    with pytest.raises(SampleError, match="https://host/a"):
        mapped.run("raises_secrets")
    stored = b"".join(path.read_bytes() for path in mapped.folder.rglob(".nv-meta/.jobs/**/*") if path.is_file())
    assert stored.count(b"ValueError: ") > 2
    function = f"{FUNCTIONS}:raises_secrets"
    command = ["map", str(mapped.folder), function]
    assert main([*command, "--show", "--limit", "3"]) == 0
    assert (
        main([*command, "--write", "score", "--keep-results", "--max-failures", "3", "--task-samples", "4", "--json"])
        == 0
    )
    shown = b"".join(capfdbinary.readouterr())
    assert b"'Accept'" in shown
    assert b"hush" not in stored + shown


def test_failed_tasks_run_again_with_another_version_of_the_function(copied: Copied) -> None:
    mapped = copied()
    with pytest.raises(SampleError):
        mapped.run("fails_sometimes")
    with pytest.raises(ConfigError, match="another function has results here"):
        mapped.run("number")
    report = mapped.run("number", engine=Engine(keeps_results=True), retry_failed=True)
    assert report.resumed == 1  # the task with the failed sample ran again
    assert len(open_dataset(mapped.folder).select(where="score >= 0")) == SHARDS * SAMPLES


def test_a_full_disk_leaves_the_finished_tasks(copied: Copied, tmp_path: Path) -> None:
    mapped = copied("to_dataset")
    with mounted_disk(mapped.out):
        with pytest.raises(StorageError, match="No space left"):
            mapped.run("large")
        done = len(list(mapped.out.glob(".nv-meta/.jobs/map-dataset/**/*.result")))
        assert ctypes.CDLL(None).mount(b"tmpfs", str(mapped.out).encode(), b"tmpfs", 32, b"size=32m") == 0
        assert mapped.run("large").resumed == done > 0
        assert len(contents(mapped.out)) == SHARDS * SAMPLES


def test_a_folder_that_cannot_be_written_is_refused_before_the_function_runs(copied: Copied) -> None:
    mapped = copied()
    with read_only(mapped.folder), pytest.raises(StorageError, match="no results can be written here"):
        mapped.run()


def test_another_run_of_the_target_is_refused_and_another_share_is_not(copied: Copied) -> None:
    mapped = copied()
    whole = Engine()
    lock = mapped.folder / ".nv-meta/.jobs/map-write-score.lock"
    child = start_holding(lock)
    try:
        with pytest.raises(StorageError, match="another run is at work here"):
            mapped.run(engine=whole)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    mapped.run(engine=whole)


def start_holding(lock: Path) -> int:
    """Start a process that holds a lock."""
    ready, writes = os.pipe()
    child = os.fork()
    if child == 0:
        from loader.storage.file_lock import hold_lock

        with hold_lock(str(lock), wait=False):
            os.write(writes, b"x")
            time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    os.close(ready)
    os.close(writes)
    return child


def test_shards_of_a_run_with_other_options_are_removed(copied: Copied) -> None:
    mapped, whole = copied("to_dataset", "a"), copied("to_dataset", "whole")
    with pytest.raises(ShareDone):  # half of the shards, of another function
        mapped.run("large", engine=Engine(share=Share(2, 2)))
    with pytest.raises(ConfigError, match="an unfinished map with another"):
        mapped.run()
    mapped.run(engine=Engine(restart=True))
    whole.run()
    assert mapped.files() == whole.files()


def test_ctrl_c_leaves_no_process_and_the_same_command_continues(copied: Copied) -> None:
    mapped = copied()
    command = [sys.executable, "-m", "energon_cli", "map", str(mapped.folder), f"{FUNCTIONS}:score"]
    command += ["--write", "score", "--task-samples", "1", "--num-workers", "2", "--no-progress"]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    results = ".nv-meta/.jobs/map-write-score/**/*.result"
    wait_until(lambda: process.poll() is not None or list(mapped.folder.glob(results)))
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    wait_until(lambda: not has_processes(process.pid))
    if process.returncode != 0:  # it was not done before
        assert "finished tasks stay; to continue, run the same command again" in errors
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        assert "by an earlier run" in done.stdout
    whole = copied("write", "whole")
    whole.run()
    assert mapped.files()["score.npy"] == whole.files()["score.npy"]


_SCRIPT = """
import sys, time
from loader import open_dataset
{before}
NAMES = {{"a", "b", "c", "d"}}
FACTOR = {factor}
def times(number):
    time.sleep(0.02)
    note(number)
    return FACTOR * number + len(NAMES)
report = open_dataset(sys.argv[1]).map(lambda sample: times(sample["json"]["number"]), write="x")
print(report.resumed)
"""


@pytest.mark.slow
def test_a_killed_script_that_maps_a_lambda_continues_in_a_new_process(copied: Copied, tmp_path: Path) -> None:
    folder, script = copied().folder, tmp_path / "script.py"

    def run(before: str, factor: int) -> subprocess.Popen[str]:
        # The lambda moves in its file, and names are hashed in another way.
        script.write_text(_SCRIPT.format(before=before, factor=factor))
        command = [sys.executable, str(script), str(folder)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    note = "def note(n):\n    with open(sys.argv[1] + '/calls.txt', 'a') as calls: print(n, file=calls)\n"
    first = run(note, 2)
    wait_until(lambda: bool(list(folder.glob(".nv-meta/.jobs/*/*/00000001.result"))), timeout_s=120)
    first.kill()
    first.communicate()
    # Another value of a global is refused, and named.
    _, errors = run(note, 3).communicate()
    assert "an unfinished map with another value of FACTOR has results here" in errors
    # The same script continues: no finished task runs again.
    output, errors = run("\n\n" + note, 2).communicate()
    assert int(output) >= 2, errors
    calls = [int(line) for line in (folder / "calls.txt").read_text().split()]
    assert all(calls.count(number) == 1 for number in range(2 * SAMPLES))
    assert open_dataset(folder).columns["x"][:].tolist() == [2 * number + 4 for number in range(SHARDS * SAMPLES)]
