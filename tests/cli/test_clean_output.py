"""Commands write no name that leads out of a folder or that a terminal obeys, and name what is no file."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from rich.panel import Panel
from rich.text import Text

from energon_cli.commands.look.mount import _start_detached
from energon_cli.commands.run.trace import show_samples
from energon_cli.console import output_console
from loader.convert.writing.sample_writers import file_name, key_of
from tests.cli.run_energon import RunEnergon

LEAVING = ["../../etc/cron", "/etc/cron", "a/../../b"]
KEPT = ["a/b..c", "x"]
CONTROLS = "k\x1b]0;title\x07\n\x7f\x9b\u202e\u2028"


def write_tar(path: Path, names: list[str], links: dict[str, str] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 4
            tar.addfile(member, io.BytesIO(b"text"))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return path


def members_of(folder: Path) -> list[str]:
    names: list[str] = []
    for path in sorted(folder.rglob("*.tar")):
        with tarfile.open(path) as tar:
            names += tar.getnames()
    return names


@pytest.fixture
def dataset(tmp_path: Path, energon: RunEnergon) -> Path:
    """A dataset that a stranger made, some of whose keys lead out of a folder."""
    names = [f"{key}.txt" for key in (*LEAVING, *KEPT)]
    write_tar(tmp_path / "data/a.tar", [*names, "../README"], {"sneaky": "/etc"})
    assert energon("prepare", tmp_path / "data", "--non-interactive", "--split-ratio", "1,0,0").code == 0
    return tmp_path / "data"


@pytest.mark.parametrize(
    "command",
    [
        ("export", "--format", "webdataset"),
        ("export", "--format", "webdataset", "--where", "bytes > 0"),
        ("extract", "--format", "tar", "--output"),
        ("reshard",),
    ],
    ids=["whole shards", "samples", "extract", "reshard"],
)
def test_no_member_of_a_written_tar_leads_out_of_its_folder(
    command: tuple[str, ...], dataset: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    name, *flags = command
    done = energon(name, dataset, *flags, tmp_path / "out", "--json")
    assert done.code == 0, done.err
    assert sorted(members_of(tmp_path / "out")) == [f"{key}.txt" for key in KEPT]
    left = [(one["unit"], one["count"]) for one in done.json["account"]["left_out"] if one["reason"] == "L121"]
    assert ("samples", 3) in left
    assert ("members", 2) in left or flags != ["--format", "webdataset"]
    assert done.json["samples"] == 2


def test_reshard_of_tars_without_metadata_leaves_such_samples_out(tmp_path: Path, energon: RunEnergon) -> None:
    write_tar(tmp_path / "data/a.tar", ["../x.txt", "y.txt"])
    done = energon("reshard", tmp_path / "data", tmp_path / "out")
    assert (members_of(tmp_path / "out"), "[L121]" in done.err) == (["y.txt"], True)


def test_whole_shards_are_copied_byte_by_byte_if_no_member_leads_out(tmp_path: Path, energon: RunEnergon) -> None:
    shard = write_tar(tmp_path / "data/a.tar", ["a/x.txt", "a..b.txt", "__notes__/x"])
    energon("prepare", tmp_path / "data", "--non-interactive", "--split-ratio", "1,0,0")
    assert energon("export", tmp_path / "data", tmp_path / "out", "--format", "webdataset").code == 0
    assert (tmp_path / "out/a.tar").read_bytes() == shard.read_bytes()


@pytest.mark.parametrize("key", ["0001", "a/1", "50%", "..", "%2F", "", CONTROLS, "caf\u00e9 \U0001f600", "caf\udce9"])
def test_names_of_files_are_printable_and_can_be_read_back(key: str) -> None:
    name = file_name(key)
    assert key_of(name) == key
    assert "/" not in name
    assert all(letter.isprintable() or "\udc80" <= letter <= "\udcff" for letter in name)


@pytest.mark.parametrize("command", [("extract", "--output"), ("get", "--output"), ("export", "--format", "files")])
def test_files_named_by_keys_have_no_control_characters(
    command: tuple[str, ...], tmp_path: Path, energon: RunEnergon
) -> None:
    write_tar(tmp_path / "data/a.tar", [f"{CONTROLS}.txt"])
    energon("prepare", tmp_path / "data", "--non-interactive", "--split-ratio", "1,0,0")
    name, *flags = command
    if name == "export":
        done = energon(name, tmp_path / "data", tmp_path / "out", *flags)
    else:
        keys = [f"a.tar/{CONTROLS}"] if name == "get" else []
        done = energon(name, tmp_path / "data", *keys, *flags, tmp_path / "out")
    assert done.code == 0, done.err
    [file] = (path for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert file.name.isprintable()
    assert key_of(file.name) == f"{CONTROLS}.txt"


# ------------------------------------------------------------------------------------------------ pipes and devices


def test_pipes_and_devices_named_like_shards_are_named_and_not_opened(tmp_path: Path, energon: RunEnergon) -> None:
    write_tar(tmp_path / "data/a.tar", ["x.txt"])
    os.mkfifo(tmp_path / "data/b.tar")
    (tmp_path / "data/c.tar").symlink_to("/dev/zero")
    done = energon("prepare", tmp_path / "data", "--non-interactive", "--split-ratio", "1,0,0")
    assert (done.code, "left out: 2 files, a link, or no file, first b.tar [L105]" in done.err) == (0, True)
    done = energon("import", tmp_path / "data", tmp_path / "out", "--yes")
    assert (done.code, "2 files, a link, or no file, first b.tar [L105]" in done.err) == (0, True)
    done = energon("lint", tmp_path / "data")
    assert "2 shards (b.tar, c.tar): a name that no reader opens: a pipe, device" in done.out + done.err


@pytest.mark.parametrize("name", ["x.tar", "x.zip", "x.csv", "x.jsonl", "x.json", "x.parquet", "x.bin"])
def test_a_pipe_given_as_a_source_ends_the_command_at_once(name: str, tmp_path: Path, energon: RunEnergon) -> None:
    os.mkfifo(tmp_path / name)
    for command in (("import", tmp_path / name, tmp_path / "out", "--yes"), ("prepare", tmp_path / name)):
        done = energon(*command)
        assert done.code == 1
        assert "pipe" in done.err
        assert str(tmp_path / name) in done.err


@pytest.mark.parametrize("name", ["x.tar", "index.json", "metadata.csv", "README.md", "x.parquet", "state.json"])
def test_a_folder_of_a_pipe_names_it(name: str, tmp_path: Path, energon: RunEnergon) -> None:
    (tmp_path / "data").mkdir()
    os.mkfifo(tmp_path / "data" / name)
    assert f"{name} is a pipe, device or socket" in energon("prepare", tmp_path / "data", "--non-interactive").err
    done = energon("import", tmp_path / "data", tmp_path / "out", "--yes")
    assert (done.code, f"{name} is a link, or no file" in done.err) == (1, True)


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_absolute_names_in_an_archive_are_names_in_its_folder(kind: str, tmp_path: Path, energon: RunEnergon) -> None:
    names = ["/x.txt", "//a/y.txt", "b/z.txt"]
    path = tmp_path / f"s.{kind}"
    if kind == "tar":
        write_tar(path, names)
    else:
        with zipfile.ZipFile(path, "w") as file:
            for name in names:
                file.writestr(name, "text")
    done = energon("import", path, tmp_path / "out", "--yes", "--from", kind)
    assert done.code == 0, done.err
    assert sorted(members_of(tmp_path / "out")) == ["a/y.txt", "b/z.txt", "x.txt"]


def test_no_table_or_text_of_rich_shows_control_characters(
    tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tar(tmp_path / "data/a.tar", ["k\x1b[31m.t\x1b[31m"])
    done = energon("get", tmp_path / "data", "k\x1b[31m")
    assert (done.code, r"t\x1b[31m" in done.out, "\x1b" in done.out) == (0, True, False)
    shown = io.StringIO()
    monkeypatch.setattr("sys.stdout", shown)
    output_console().print(Text("\x1b[31m\x9b"), Panel("\x07"))
    assert not {"\x1b", "\x9b", "\x07"} & {*shown.getvalue()}


def test_a_pipe_as_an_index_of_another_tool_does_not_hang(dataset: Path, energon: RunEnergon) -> None:
    (dataset / ".nv-meta/index.sqlite").unlink(missing_ok=True)
    os.mkfifo(dataset / ".nv-meta/index.sqlite")
    assert energon("info", dataset).code == 0
    assert energon("prepare", dataset, "--yes").code == 0


@pytest.mark.parametrize("start", [_start_detached, lambda: show_samples([("missing", "key")])])
@pytest.mark.sampled(2)
def test_background_commands_import_nothing_of_the_working_directory(
    start: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "click.py").write_text("open('run', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["energon", "mount", "missing", "point"])
    with pytest.raises(click.exceptions.Exit):
        start()
    assert not (tmp_path / "run").exists()
