"""Facts about a machine, read from real folders, limits and packages."""

from __future__ import annotations

import dataclasses
import os
import resource
from importlib import metadata
from pathlib import Path

import pytest

from loader.inspect.doctor import Disk, Installed, Limits, examine_machine, read_limits, read_packages

ROOMY = Limits(
    machine_cores=8,
    usable_cores=8,
    cgroup_cores=None,
    memory_bytes=64 << 30,
    cgroup_memory_bytes=None,
    open_files=1 << 20,
    open_files_hard=1 << 20,
    locked_memory_bytes=None,
    shared_memory=Disk(path="/dev/shm", total_bytes=8 << 30, free_bytes=8 << 30),
)
COMPLETE = Installed(toolkit="1", python="3.12", required={"torch": "2.9"}, outdated={}, extras={"av": ("av",)})


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENERGON_CACHE_DIR", raising=False)


def test_version_2_of_control_groups_limits_by_the_narrowest_group_around_the_process(tmp_path: Path) -> None:
    limits = read_limits(
        write(
            tmp_path,
            {
                "proc/self/cgroup": "0::/jobs/7\n",
                "proc/meminfo": "MemTotal:  1000 kB\nMemFree: 5 kB\n",
                "sys/fs/cgroup/cpu.max": "max 100000\n",
                "sys/fs/cgroup/jobs/cpu.max": "150000 100000\n",
                "sys/fs/cgroup/jobs/7/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/jobs/memory.max": "max\n",
                "sys/fs/cgroup/jobs/7/memory.max": "2048\n",
            },
        )
    )
    assert (limits.cgroup_cores, limits.cgroup_memory_bytes, limits.memory_bytes) == (1.5, 2048, 1_024_000)
    assert limits.cores == min(limits.usable_cores, 2)


def test_version_1_of_control_groups_and_a_mount_of_the_containers_own_group(tmp_path: Path) -> None:
    limits = read_limits(
        write(
            tmp_path,
            {
                "proc/self/cgroup": "5:cpu:/docker/abc\n4:memory:/docker/abc\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
        )
    )
    assert (limits.cgroup_cores, limits.cgroup_memory_bytes) == (0.5, None)
    assert limits.cores == 1


def test_without_proc_and_sys_there_are_no_limits_of_a_group(tmp_path: Path) -> None:
    limits = read_limits(tmp_path)
    assert (limits.cgroup_cores, limits.cgroup_memory_bytes, limits.memory_bytes) == (None, None, None)
    assert limits.shared_memory is None


def test_the_limits_of_this_process_are_read() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))
        assert read_limits().open_files == 1000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_packages_of_this_environment() -> None:
    installed = read_packages()
    assert installed.required["torch"] == metadata.version("torch")
    assert not installed.outdated
    assert "remote" in installed.extras
    assert "dev" not in installed.extras


def test_missing_and_old_packages_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        tmp_path,
        {
            "demo-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1\n"
            "Requires-Dist: torch>=99.1\nRequires-Dist: no-such-package>=1\n"
            'Requires-Dist: no-such-extra ; extra == "av"\n'
        },
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    installed = read_packages("demo")
    assert installed.outdated == {"torch": "99.1"}
    assert installed.required["no-such-package"] is None
    assert installed.extras == {"av": ("no-such-extra",)}
    advice = examine_machine(ROOMY, installed).advice
    assert [(one.severity, one.subject) for one in advice[:2]] == [("error", "no-such-package"), ("error", "torch")]


@pytest.mark.parametrize(
    ("change", "subject", "hint"),
    [
        ({"cgroup_cores": 1.5}, "cores", "--num-workers 2"),
        ({"open_files": 1024}, "open files", "ulimit -n 65536"),
        ({"open_files": 1024, "open_files_hard": 1024}, "open files", "hard limit"),
        ({"cgroup_memory_bytes": 1 << 30}, "memory", "fewer workers"),
        (
            {"shared_memory": Disk(path="/dev/shm", total_bytes=1 << 26, free_bytes=1 << 26)},
            "shared memory",
            "--shm-size",
        ),
    ],
)
def test_each_narrow_limit_is_a_warning_with_a_hint(change: dict[str, object], subject: str, hint: str) -> None:
    roomy = {one.subject for one in examine_machine(ROOMY, COMPLETE).advice}
    assert subject not in roomy
    [found] = [one for one in examine_machine(dataclasses.replace(ROOMY, **change), COMPLETE).advice  # type: ignore[arg-type]
               if one.subject == subject]  # fmt: skip
    assert found.severity == "warning"
    assert hint in found.hint


def test_the_cache_is_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine_machine(ROOMY, COMPLETE).cache is None
    monkeypatch.setenv("ENERGON_CACHE_DIR", str(tmp_path / "not" / "yet"))
    checkup = examine_machine(ROOMY, COMPLETE)
    assert checkup.cache is not None
    assert checkup.cache_disk is not None
    assert checkup.cache_disk.path == str(tmp_path)
    monkeypatch.setenv("ENERGON_CACHE_BYTES", "lots")
    [found] = [one for one in examine_machine(ROOMY, COMPLETE).advice if one.subject == "cache"]
    assert found.severity == "error"


@pytest.mark.skipif(
    os.geteuid() == 0 and not os.path.isdir("/proc/sys"), reason="needs a folder that root cannot write"
)
def test_a_cache_in_a_folder_that_is_not_writable_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = "/proc/sys" if os.geteuid() == 0 else str(tmp_path / "closed")
    if os.geteuid() != 0:
        os.mkdir(folder, 0o500)
    monkeypatch.setenv("ENERGON_CACHE_DIR", f"{folder}/cache")
    found = [one for one in examine_machine(ROOMY, COMPLETE).advice if one.subject == "cache"]
    assert any(one.severity == "error" and "not writable" in one.message for one in found)
