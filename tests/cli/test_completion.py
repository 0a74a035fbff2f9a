"""Shells complete values: they ask the program with variables in the environment, as click's scripts for them do."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from energon_cli.main import main
from loader.prepare.plan import SplitRequest
from tests.cli.make_dataset import caption_parts, write_shard
from tests.cli.run_energon import RunEnergon
from tests.e2e.dataset_tree import prepare
from tests.source_tree import ROOT

Ask = Callable[..., list[str]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Ask for the candidates of the last word, as bash does; each is a type and a value."""

    def ask(*words: object) -> list[str]:
        monkeypatch.setenv("_ENERGON_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", shlex.join(["energon", *map(str, words)]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit):
            main()
        out, err = capsys.readouterr()
        assert not err
        return out.split()

    return ask


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset") / "photos"
    parts = {"txt": caption_parts(0)["txt"]}
    for shard in range(3):
        keys = (f"{shard}{number:04d}" for number in range(150 if shard == 2 else 3))
        write_shard(folder / f"shard_{shard}.tar", dict.fromkeys(keys, parts))
    prepare(folder, split=SplitRequest(ratio={"train": 1.0, "trial": 1.0, "val": 1.0}))
    return folder


def test_paths_are_completed_by_the_shell(ask: Ask) -> None:
    assert ask("info", "/da") == ["file,/da"]
    assert ask("checkpoint", "info", "a.pt", "b") == ["file,b"]
    assert ask("prepare", "/data", "--tmp-path", "/t") == ["dir,/t"]


def test_files_and_folders_of_other_arguments(ask: Ask) -> None:
    assert ask("diff", "/data/a", "/da") == ["file,/da"]
    assert ask("extract", "/data", "-o", "new") == ["file,new"]
    assert ask("extract", "/data", "--keys-from", "bad") == ["file,bad"]
    assert ask("mount", "/data", "/mn") == ["dir,/mn"]
    assert ask("info", "/data/a", "/data/b") == ["file,/data/b"]
    assert ask("analyze-debug", "debug/") == ["file,debug/"]


def test_flags_and_choices(ask: Ask) -> None:
    assert ask("lint", "/data", "--max") == ["plain,--max-findings", "plain,--max-json-bytes"]
    assert ask("lint", "/data", "--level", "b") == ["plain,bytes"]
    assert ask("prepare", "/data", "--engine", "d") == ["plain,dask"]
    assert ask("prepare", "/data", "--share", "") == ["plain,auto"]
    assert ask("prepare", "/data", "--address", "s") == ["file,s"]


def test_sample_types(ask: Ask) -> None:
    assert ask("prepare", "/data", "--sample-type", "Cru") == ["plain,CrudeSample"]
    assert "plain,CaptioningSample" in ask("prepare", "/data", "--sample-type", "")


def test_split_parts_of_the_dataset(ask: Ask, dataset: Path) -> None:
    assert ask("preview", dataset, "--split-parts", "tr") == ["plain,train", "plain,trial"]
    assert ask("lint", dataset, "--split-parts", "val,tr") == ["plain,val,train", "plain,val,trial"]
    assert ask("lint", dataset, "--split-parts", "train,t") == ["plain,train,trial"]


@pytest.mark.parametrize("command", ["extract", "explain", "trace", "mount", "stats"])
def test_one_split_part_of_the_dataset(ask: Ask, dataset: Path, command: str) -> None:
    assert ask(command, dataset, "--split-parts", "tr") == ["plain,train", "plain,trial"]


def test_parts_of_a_sample(ask: Ask, dataset: Path) -> None:
    assert ask("get", dataset, "shard_1.tar/10000", "") == ["plain,txt"]
    assert ask("get", dataset, "shard_1.tar/nothing", "") == []


def test_splits_of_a_metadataset(ask: Ask, tmp_path: Path) -> None:
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits: {train: {path: a}, dev: {path: b}}\n"
    )
    assert ask("preview", mix, "--split-parts", "") == ["plain,train", "plain,dev"]


def test_keys_shard_by_shard(ask: Ask, dataset: Path) -> None:
    assert ask("preview", dataset, "sh") == [f"plain,shard_{number}.tar/" for number in range(3)]
    assert ask("get", dataset, "shard_0.tar/00001") == ["plain,shard_0.tar/00001"]
    assert ask("exclude", dataset, "x", "shard_0.tar/00001") == ["plain,shard_0.tar/00001"]
    assert ask("preview", "--seed", 4, dataset, "shard_0.tar/00001") == ["plain,shard_0.tar/00001"]
    assert ask("preview", dataset, "shard_1") == [f"plain,shard_1.tar/1000{number}" for number in range(3)]


def test_many_keys_are_cut_where_they_differ(ask: Ask, dataset: Path) -> None:
    assert ask("preview", dataset, "shard_2.tar/") == ["plain,shard_2.tar/200", "plain,shard_2.tar/201"]
    assert ask("preview", dataset, "shard_2.tar/2014")[::9] == [
        "plain,shard_2.tar/20140",
        "plain,shard_2.tar/20149",
    ]


def test_names_of_documents(ask: Ask, dataset: Path) -> None:
    assert ask("lint", dataset, "--split-config", "s") == ["plain,split.yaml"]


@pytest.mark.parametrize("option", ["--split-parts", "--split-config"])
def test_a_dataset_that_cannot_be_read_has_no_candidates(ask: Ask, tmp_path: Path, option: str) -> None:
    assert ask("preview", tmp_path / "missing", option, "") == []
    assert ask("preview", option, "") == []
    (tmp_path / ".nv-meta").mkdir()
    (tmp_path / ".nv-meta" / ".info.json").write_text("{")
    assert ask("preview", tmp_path, option, "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(energon: RunEnergon, shell: str) -> None:
    done = energon("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert f"_ENERGON_COMPLETE={shell}_complete" in done.out


def test_another_shell_is_wrong_usage(energon: RunEnergon) -> None:
    assert energon("completion", "csh").code == 2


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with a program ``energon``, for the ``PATH`` of a shell."""
    program = tmp_path / "energon"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {sys.executable} -m energon_cli "$@"\n')
    program.chmod(0o755)
    return tmp_path


SHELLS = {
    "bash": (["--norc", "-i"], 'eval "$(energon completion bash)" && echo rea""dy'),
    "zsh": (["-f", "-i"], 'autoload -U compinit && compinit -u && eval "$(energon completion zsh)" && echo rea""dy'),
    "fish": (["--no-config", "-i"], 'energon completion fish | source && echo rea""dy'),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_a_line(dataset: Path, program: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    arguments, start = SHELLS[shell]
    environment = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}", "TERM": "dumb", "HOME": str(program)}
    with_keys = pexpect.spawn(shell, arguments, env=environment, cwd=dataset.parent, encoding="utf-8")
    try:
        with_keys.sendline(start)
        with_keys.expect("ready", timeout=60)
        with_keys.send("energon prev\t")
        with_keys.expect("iew ", timeout=60)
        with_keys.send("pho\t")
        with_keys.expect("photos/", timeout=60)
        with_keys.send(" --split-parts v\t")
        with_keys.expect("val ", timeout=60)
        with_keys.send("shard_1\t")
        with_keys.expect("[.]tar/1000", timeout=60)
    finally:
        with_keys.close(force=True)
