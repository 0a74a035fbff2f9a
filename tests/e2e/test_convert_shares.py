"""The commands that write datasets run in shares: the same files as one process, after any order, kills and repeats."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from energon_cli.main import main
from loader.convert.importing.plan import ImportPlan
from loader.convert.importing.run import run_import
from loader.convert.rows.shard_layout import ShardLayout
from loader.convert.sources.files import FilesSource
from loader.engine import Engine
from tests.cli.run_energon import Done, RunEnergon, run_in_this_process
from tests.unit.convert.importing.test_run import shards_of, write_photos

SHARES = 4
_IDENTITIES = (".lock", "index.uuid", ".info.json")  # uuids and times


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    return run_in_this_process(capfd, monkeypatch)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide new parts into shards of two samples, for which there is no option."""
    defaults: dict[str, object] = ShardLayout.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "samples_per_shard", 2)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files of a dataset but for identities; those of the index by their names in its folder."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and path.name not in _IDENTITIES:
            pieces = name.split("/")
            data = re.sub(rb'"(prepared_at|mtime_ns|version)": ("[^"]*"|\d+)', b"", path.read_bytes())
            files["/".join(pieces[:2] + pieces[3:]) if pieces[1:2] == ["index"] else name] = data
    return files


def begin(*arguments: object) -> int:
    """Run the program in a fork, with a process group of its own; return its process."""
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        code = 1
        try:
            code = main([str(argument) for argument in arguments])
        finally:
            os._exit(code)
    os.setpgid(child, child)
    return child


def end(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def at_once(line: tuple[object, ...], shares: int = SHARES) -> list[int]:
    """Run all shares of a command at the same time, the last one first; return their exit codes."""
    children = [begin(*line, "--share", f"{share}/{shares}") for share in range(shares, 0, -1)]
    return [end(child) for child in children]


def photos_line(tmp_path: Path) -> Callable[[str], tuple[object, ...]]:
    photos = write_photos(tmp_path / "photos")
    (photos / "017.jpg").write_bytes(b"no picture")  # fails in a share, and is listed after the merge
    limits = ("--yes", "--verify", "--max-failures", "1", "--samples-per-shard", "3", "--shuffle")
    return lambda dest: ("import", photos, tmp_path / dest, *limits)


def table_line(tmp_path: Path) -> Callable[[str], tuple[object, ...]]:
    photos = write_photos(tmp_path / "photos", 30)
    rows = [{"id": f"k{n:02d}", "image": f"{n:03d}.jpg", "caption": f"a {n}", "score": n / 7} for n in range(30)]
    (photos / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return lambda dest: ("import", photos / "t.jsonl", tmp_path / dest, "--yes", "--samples-per-shard", "4")


def reshard_line(tmp_path: Path) -> Callable[[str], tuple[object, ...]]:
    photos = write_photos(tmp_path / "photos")
    assert main(["import", str(photos), str(tmp_path / "old"), "--yes", "--split-ratio", "3,1,0"]) == 0
    options = ("--sort-by", "jpg.width", "--samples-per-shard", "3")
    return lambda dest: ("reshard", tmp_path / "old", tmp_path / dest, *options)


LINES = {"pictures": photos_line, "table": table_line, "reshard": reshard_line}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.sampled(4)
def test_shares_and_a_merge_write_the_files_of_one_process(name: str, energon: RunEnergon, tmp_path: Path) -> None:
    line = LINES[name](tmp_path)
    whole = energon(*line("whole"))
    assert whole.code == 0, whole.err
    # All but one share at once.
    children = [begin(*line("out"), "--share", f"{share}/{SHARES}") for share in (4, 3, 1)]
    assert [end(child) for child in children] == [0, 0, 0]
    assert not (tmp_path / "out/.nv-meta/.info.json").exists()
    early = energon(*line("out"), "--merge")
    assert early.code == 1
    assert "share 2 of 4 is not complete" in early.err
    assert f"then merge again: energon {shlex.join(map(str, line('out')))} --share 2/4" in early.err
    # The missing one, and one again.
    last = energon(*line("out"), "--share", "2/4")
    assert last.code == 0, last.err
    assert "share 2/4 is done" in last.out
    assert "--merge" in last.out
    times = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out").glob("*.tar")}
    if name != "pictures":  # a row that failed is tried again
        assert "had been done" in energon(*line("out"), "--share", "3/4").out
    merged = energon(*line("out"), "--merge")
    assert merged.code == 0, merged.err
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out").glob("*.tar")} == times
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    assert not (tmp_path / "out/.nv-meta/.import").exists()
    again = energon(*line("out"), "--share", "1/4")
    assert "already done" in again.out


@pytest.mark.usefixtures("small_shards")
def test_added_parts_in_shares(energon: RunEnergon, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 20)
    assert energon("import", photos, tmp_path / "ds", "--yes", "--samples-per-shard", 5).code == 0
    rows = (json.dumps({"id": f"{number:03d}", "caption": f"new {number}"}) for number in range(20))
    (tmp_path / "new.jsonl").write_text("\n".join(rows))

    def line(dest: str) -> tuple[object, ...]:
        return "add-parts", tmp_path / "ds", tmp_path / dest, "--from", tmp_path / "new.jsonl"

    assert energon(*line("whole")).code == 0
    assert at_once(line("out")) == [0] * SHARES
    assert not (tmp_path / "out.yaml").exists()
    assert len([*(tmp_path / "out").glob("*.tar")]) == 10
    merged = energon(*line("out"), "--merge")
    assert merged.code == 0, merged.err
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    assert (tmp_path / "out.yaml").read_text() == (tmp_path / "whole.yaml").read_text().replace("whole", "out")


def many_photos_line(tmp_path: Path) -> Callable[[str], tuple[object, ...]]:
    photos = write_photos(tmp_path / "photos", 60)
    options = ("--yes", "--samples-per-shard", "2", "--split-ratio", "1")
    return lambda dest: ("import", photos, tmp_path / dest, *options)


def many_shards_line(tmp_path: Path) -> Callable[[str], tuple[object, ...]]:
    assert main([str(word) for word in many_photos_line(tmp_path)("old")]) == 0
    return lambda dest: ("reshard", tmp_path / "old", tmp_path / dest, "--samples-per-shard", "2", "--sort-by", "key")


def many_parts_line(tmp_path: Path) -> Callable[[str], tuple[object, ...]]:
    assert main([str(word) for word in many_photos_line(tmp_path)("old")]) == 0
    rows = (json.dumps({"id": f"{number:03d}", "caption": f"new {number}"}) for number in range(60))
    (tmp_path / "new.jsonl").write_text("\n".join(rows))
    return lambda dest: ("add-parts", tmp_path / "old", tmp_path / dest, "--from", tmp_path / "new.jsonl")


@pytest.mark.parametrize("lines", [many_photos_line, many_shards_line, many_parts_line])
@pytest.mark.usefixtures("small_shards")
@pytest.mark.slow
def test_kills_of_shares_lose_and_double_nothing(
    lines: Callable[[Path], Callable[[str], tuple[object, ...]]], energon: RunEnergon, tmp_path: Path
) -> None:
    line_to = lines(tmp_path)
    assert energon(*line_to("whole"), "--num-workers", 2).code == 0
    chance, kills = random.Random(3), 0
    line = (*line_to("out"), "--num-workers", 2)
    waiting = [1, 2, 3]

    def written() -> list[Path]:
        return [*(tmp_path / "out").glob(".nv-meta/.import/*.json")]

    while waiting:
        children = {share: begin(*line, "--share", f"{share}/3") for share in waiting}
        due, last = len(written()) + chance.randint(1, 12), time.monotonic() + 5
        while len(written()) < due and time.monotonic() < last:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.02))
        for child in children.values():
            os.killpg(child, signal.SIGKILL)
        codes = {share: end(child) for share, child in children.items()}
        kills += sum(code == -signal.SIGKILL for code in codes.values())
        waiting = [share for share in waiting if codes[share] != 0]
        assert kills < 60, "a share never ends"
    merged = energon(*line, "--merge")
    assert merged.code == 0, merged.err
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    assert not [*(tmp_path / "out").rglob("*.partial")]
    if (tmp_path / "whole.yaml").exists():
        assert (tmp_path / "out.yaml").read_text() == (tmp_path / "whole.yaml").read_text().replace("whole", "out")
    assert kills > 3


def test_a_share_refuses_sources_that_have_changed(energon: RunEnergon, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 12)
    line = ("import", photos, tmp_path / "out", "--yes", "--samples-per-shard", "2")
    assert energon(*line, "--merge").code == 1
    assert energon(*line, "--share", "1/3").code == 0
    (photos / "more.jpg").write_bytes((photos / "000.jpg").read_bytes())
    for last in (("--share", "2/3"), ("--merge",)):
        changed = energon(*line, *last)
        assert changed.code == 1
        assert "another list of source files, number of samples" in changed.err
        assert "samples: 12 then, 13 now" in changed.err
    (photos / "more.jpg").unlink()
    os.utime(photos / "005.jpg")
    changed = energon(*line, "--share", "2/3")
    assert "another list of source files has results here" in changed.err
    assert "--restart" in changed.err
    other = energon(*line, "--resize", "8", "--share", "2/3", "--restart")
    assert other.code == 0, other.err
    assert "an unfinished import with another handling of pictures" in energon(*line, "--share", "3/3").err
    assert "shares: 3 then, 5 now" in energon(*line, "--resize", "8", "--share", "1/5").err
    # One process takes what shares have written.
    assert energon(*line).code == 0


def test_shares_need_yes(energon: RunEnergon, tmp_path: Path) -> None:
    done: Done = energon("import", write_photos(tmp_path / "photos", 2), tmp_path / "out", "--share", "1/2")
    assert done.code == 2
    assert "pass --yes" in done.err


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_an_executor_writes_the_same_shards(kind: type[Executor], tmp_path: Path) -> None:
    source = FilesSource(path=str(write_photos(tmp_path / "photos", 20)))
    layout = ShardLayout(samples_per_shard=3, shuffle_seed=5)
    run_import(ImportPlan(sources=(source,), output=str(tmp_path / "whole"), layout=layout))
    with kind(max_workers=2) as executor:  # type: ignore[call-arg]
        engine = Engine(executor=executor)
        plan = ImportPlan(sources=(source,), output=str(tmp_path / "out"), layout=layout, engine=engine)
        assert run_import(plan).written == 7
    assert shards_of(tmp_path / "out") == shards_of(tmp_path / "whole")


def test_a_worker_that_is_killed_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loader.convert.importing import sample_contents, write_shard

    photos, killed = write_photos(tmp_path / "photos", 20), tmp_path / "killed"
    layout = ShardLayout(samples_per_shard=3)
    source = FilesSource(path=str(photos))
    run_import(ImportPlan(sources=(source,), output=str(tmp_path / "whole"), layout=layout))
    read = sample_contents.read_sample

    def read_or_die(*arguments: object) -> object:
        if arguments[1].key == "010" and not killed.exists():  # type: ignore[attr-defined]
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(write_shard, "read_sample", read_or_die)
    report = run_import(ImportPlan(sources=(source,), output=str(tmp_path / "out"), layout=layout, workers=2))
    assert killed.exists()
    assert report.written + report.resumed == 7  # the report of a shard may be lost with its worker
    assert shards_of(tmp_path / "out") == shards_of(tmp_path / "whole")
    assert not [*(tmp_path / "out").rglob("*.partial")]
