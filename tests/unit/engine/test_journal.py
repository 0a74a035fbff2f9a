"""The results of finished tasks on disk: damaged files, other jobs, restarts, and full disks."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import msgspec
import pytest

from loader.engine.journal import Job, Journal, Journaled, NumberedTask
from loader.errors import ConfigError, FormatError, StorageError
from loader.storage import LocalStorage
from tests.small_disks import mounted_disk

FOLDER = ".jobs/map-score"


class Result(msgspec.Struct, frozen=True):
    """A result as commands have it."""

    values: bytes = b""
    count: int = 0


def journal_at(folder: Path) -> Journal[Result]:
    return Journal(LocalStorage(folder), FOLDER, Result)


def job(*, shares: int = 0, tasks: int = 4, **request: str) -> Job:
    starts = tuple(tasks * number // shares for number in range(shares)) if shares else ()
    return Job(command="map", request={"dataset": "1234", **request}, tasks=tasks, starts=starts)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / FOLDER).rglob("*") if path.is_file())


def test_results_are_read_by_the_next_run(tmp_path: Path) -> None:
    first = journal_at(tmp_path)
    first.begin(job())
    first.write(2, Result(b"abc", 3))
    assert [*Journaled(lambda task: Result(count=task), first)(NumberedTask(0, 7))] == [Result(count=7)]
    again = journal_at(tmp_path)
    again.begin(job())
    assert again.finished() == {0, 2}
    assert (again.read(2), again.read(0)) == (Result(b"abc", 3), Result(count=7))
    again.storage.remove(again._file(2))
    assert again.finished() == {0}
    again.discard()
    assert (again.job(), again.finished()) == (None, set())


@pytest.mark.parametrize("keep", [0, 3, 4, 9, -1])
def test_a_truncated_result_is_no_result(tmp_path: Path, keep: int) -> None:
    journal = journal_at(tmp_path)
    journal.begin(job())
    journal.write(1, Result(b"abc", 3))
    (file,) = (tmp_path / FOLDER).rglob("*.result")
    file.write_bytes(file.read_bytes()[:keep])
    assert journal.read(1) is None


def test_a_damaged_result_is_no_result(tmp_path: Path) -> None:
    journal = journal_at(tmp_path)
    journal.begin(job())
    journal.write(1, Result(b"abc", 3))
    (file,) = (tmp_path / FOLDER).rglob("*.result")
    data = file.read_bytes()
    for position in range(len(data)):
        file.write_bytes(data[:position] + bytes([data[position] ^ 0x40]) + data[position + 1 :])
        assert journal.read(1) is None


@pytest.mark.parametrize(
    ("other", "names"),
    [
        (job(function="score"), "function"),
        (job(function="score", samples="9"), "function, samples"),
        (job(tasks=5), "tasks"),
        (job(shares=2), "shares"),
    ],
)
def test_results_of_another_job_are_refused_until_they_are_given_up(tmp_path: Path, other: Job, names: str) -> None:
    first = journal_at(tmp_path)
    first.begin(job())
    first.write(0, Result(count=1))
    later = journal_at(tmp_path)
    with pytest.raises(ConfigError, match=f"an unfinished map with another {names} has results here") as caught:
        later.begin(other)
    assert "--restart" in str(caught.value.hint)
    assert first.read(0) == Result(count=1)
    later.begin(other, restart=True)
    if names != "shares":  # the results of a task are the same, whatever the shares
        assert later.finished() == set()


def test_results_may_be_kept_for_another_version_of_a_function_but_not_for_other_tasks(tmp_path: Path) -> None:
    first = journal_at(tmp_path)
    first.begin(job(version="1"))
    first.write(0, Result(count=1))
    later = journal_at(tmp_path)
    later.begin(job(version="2"), keeps_results=True)
    assert later.read(0) == Result(count=1)
    resumed = journal_at(tmp_path)
    resumed.begin(job(version="2"))
    assert resumed.finished() == {0}
    with pytest.raises(ConfigError, match=r"; samples: none then, 9 now"):
        journal_at(tmp_path).begin(job(version="2", samples="9"), keeps_results=True)
    with pytest.raises(ConfigError, match=r"; tasks: 4 then, 5 now") as caught:
        journal_at(tmp_path).begin(job(version="2", tasks=5), keeps_results=True)
    assert "--keep-results" not in str(caught.value.hint)
    resumed.begin(job(version="2"), restart=True)
    assert resumed.finished() == set()


def test_a_process_of_an_earlier_job_writes_nothing_into_a_later_one(tmp_path: Path) -> None:
    earlier = journal_at(tmp_path)
    earlier.begin(job(function="first"))
    sent: Journal[Result] = pickle.loads(pickle.dumps(earlier))
    earlier.discard()
    later = journal_at(tmp_path)
    later.begin(job(function="second"))
    sent.write(0, Result(count=1))
    assert later.finished() == set()


def test_shares_that_restart_together_keep_what_the_others_have_done(tmp_path: Path) -> None:
    old = journal_at(tmp_path)
    old.begin(job(shares=2, function="first"))
    old.write(3, Result(count=1))
    one, two = journal_at(tmp_path), journal_at(tmp_path)
    one.begin(job(shares=2, function="second"), restart=True)
    one.write(0, Result(count=2))
    two.begin(job(shares=2, function="second"), restart=True)
    assert two.finished() == {0}
    assert files(tmp_path) == ["00000000.result", "job.json", "job.json.lock"]


@pytest.mark.parametrize(
    "text", ["", "{", '{"command": "map"}', '{"command": "map", "request": {}, "tasks": 4, "results": "../../x"}']
)
def test_a_damaged_description_is_named_and_a_restart_replaces_it(tmp_path: Path, text: str) -> None:
    journal = journal_at(tmp_path)
    journal.begin(job())
    (tmp_path / FOLDER / "job.json").write_text(text)
    with pytest.raises(FormatError, match="the description of an unfinished job is damaged") as caught:
        journal.begin(job())
    assert "--restart" in str(caught.value.hint)
    journal.begin(job(), restart=True)
    assert journal.job() is not None


def test_a_full_disk_is_named_and_leaves_the_results_before_it(tmp_path: Path) -> None:
    with mounted_disk(tmp_path / "disk") as disk:
        journal = journal_at(disk)
        journal.begin(job())
        journal.write(0, Result(os.urandom(600_000)))
        with pytest.raises(StorageError, match="No space left on device"):
            journal.write(1, Result(os.urandom(600_000)))
        again = journal_at(disk)
        again.begin(job())
        assert again.finished() == {0}
        assert files(disk) == ["00000000.result", "job.json", "job.json.lock"]
