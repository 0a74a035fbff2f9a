"""New datasets in repositories of the Hugging Face Hub, written with the hub's own client."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from energon_cli.main import main
from loader import ShardWriter, WorkerConfig, get_savable_loader, get_train_dataset, open_dataset
from loader.engine.journal import AlreadyDoneError
from loader.errors import ConfigError, StorageError
from loader.storage import open_storage, remember_options
from loader.storage.hub_folder import STAGING_VARIABLE, HubFolder
from loader.storage.remote.options import OPTIONS_VARIABLE
from tests.hub_server import Fault, FaultPlan, HubServer, hub_server

URL = "hf://datasets/me/cats/photos"
PICTURES = 12


@pytest.fixture(params=["lfs"])
def hub(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    is_xet = request.param == "xet"
    with hub_server(xet_store=tmp_path / "xet" if is_xet else None) as hub:
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "0" if is_xet else "1")
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setenv("HF_TOKEN", hub.add_user("me"))
        monkeypatch.setenv(STAGING_VARIABLE, str(tmp_path / "staging"))
        monkeypatch.setenv(OPTIONS_VARIABLE, "{}")
        hub.create("datasets", "me/cats", xet=is_xet).commit({".gitattributes": b"*.tar filter=lfs\n"})
        yield hub


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(PICTURES):
        Image.effect_noise((64, 64), 60 + number).save(folder / f"{number:02d}.png")
        (folder / f"{number:02d}.txt").write_text(f"cat {number}")
    return folder


def import_photos(photos: Path, *options: str, url: str = URL) -> int:
    shards = ("--yes", "--samples-per-shard", "4", "--split-ratio", "1,0,0")
    return main(["import", str(photos), url, *shards, *options])


def texts(url: str) -> list[str]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    dataset = get_train_dataset(
        url, worker_config=config, batch_size=1, shuffle_buffer_size=4, max_samples_per_sequence=4, repeat=False
    )
    with get_savable_loader(dataset) as loader:
        return sorted(batch["txt"][0] if isinstance(batch, dict) else batch.caption[0] for batch in loader)


def uploads(hub: HubServer) -> Counter[str]:
    return Counter(
        request.path for request in hub.log if request.path.startswith("/uploads/") and request.method == "PUT"
    )


def commits(hub: HubServer) -> int:
    return hub.count(method="POST", path="/api/datasets/me/cats/commit/*", status=200)


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("hub", ["lfs", "xet"], indirect=True)
def test_an_import_is_one_commit_and_a_loader_reads_it(
    hub: HubServer, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert import_photos(photos, "--license", "cc-by-4.0", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["output"], document["samples"]) == (URL, PICTURES)
    assert commits(hub) == 1
    assert texts(URL) == sorted(f"cat {number}" for number in range(PICTURES))
    assert len(open_dataset(URL)) == PICTURES
    card = open_storage("hf://datasets/me/cats").read("README.md").decode()
    assert card.startswith("---\nlicense: cc-by-4.0\nconfigs:")
    assert '"photos/shard_*.tar"' in card
    assert "| train | 12 | 3 |" in card
    assert URL in card
    assert not [path for path in (tmp_path / "staging").rglob("*") if path.suffix == ".tar"]
    names = {info.name for info in open_storage(f"{URL}/.nv-meta").list()}
    assert not [name for name in names if "lock" in name or name.startswith(".work")]
    # The same command again says that it is there.
    assert import_photos(photos, "--license", "cc-by-4.0") == 1
    error = error_of(capsys)
    assert "the repository has photos already" in error
    assert "read it if an earlier run published it" in error
    assert commits(hub) == 1


KILLED = """
import os, sys
from loader.storage.remote.clients.hub.commit_upload import CommitUpload
from energon_cli.main import main
from loader.storage import hub_folder
folder = hub_folder.HubFolder
publish = folder.publish
def killed(self, *arguments):
    import time
    time.sleep(3)  # the shards are uploaded meanwhile
    os.kill(os.getpid(), 9)
folder.publish = killed
sys.exit(main(sys.argv[1:]))
"""


def test_an_import_that_was_killed_sends_no_file_twice(hub: HubServer, photos: Path) -> None:
    options = ["import", str(photos), URL, "--yes", "--samples-per-shard", "4", "--split-ratio", "1,0,0"]
    options += ["--license", "none"]
    process = subprocess.run([sys.executable, "-c", KILLED, *options], capture_output=True, timeout=100, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr
    shards = uploads(hub)
    assert sorted(shards.values()) == [1, 1, 1]
    assert commits(hub) == 0
    time.sleep(0.5)  # until the helper has ended
    assert main(options) == 0
    assert commits(hub) == 1
    assert all(uploads(hub)[path] == 1 for path in shards)
    assert len(texts(URL)) == PICTURES


def test_a_missing_repository_is_named_with_the_command_that_creates_it(
    hub: HubServer, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert import_photos(photos, "--license", "none", url="hf://datasets/me/dogs") == 1
    assert "hf repos create" in error_of(capsys)
    assert not hub.count(path="/api/repos/create")
    hub.create("datasets", "me/dogs").commit({".gitattributes": b""})
    assert import_photos(photos, "--license", "none", url="hf://datasets/me/dogs") == 0
    assert len(texts("hf://datasets/me/dogs")) == PICTURES


def test_a_licence_is_never_guessed(hub: HubServer, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_photos(photos) == 1
    assert "--license" in error_of(capsys)
    assert not commits(hub)
    # A card that exists stays.
    hub.repositories["datasets", "me/cats"].commit({"README.md": b"# Mine"})
    assert import_photos(photos) == 0
    assert open_storage("hf://datasets/me/cats").read("README.md") == b"# Mine"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("hf://datasets/me/cats@v1/x", "expected a branch, found 'v1'; branches are main"),
        ("hf://datasets/me/cats@gone/x", "expected a branch, found 'gone'"),
        (f"hf://datasets/me/cats@{'0' * 40}/x", "expected a branch"),
        ("hf://me/cats/x", "branch of a repository of data"),
        ("hf://datasets/you/cats/x", "namespace"),
        ("hf://datasets/me/cats/taken", "the repository has taken already: nothing is overwritten"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(
    hub: HubServer, photos: Path, capsys: pytest.CaptureFixture[str], url: str, expected: str
) -> None:
    hub.create("datasets", "you/cats").commit({"a.txt": b"a"})
    repository = hub.repositories["datasets", "me/cats"]
    repository.commit({"taken/a.txt": b"a"})
    repository.tag("v1")
    assert import_photos(photos, "--license", "none", url=url) in (1, 2)
    assert expected in error_of(capsys)
    assert not uploads(hub)


@pytest.mark.parametrize(("token", "expected"), [("", "no token"), ("hf_wrong", "HF_TOKEN"), ("read", "may write")])
def test_tokens_that_may_not_write_are_named_and_shown_nowhere(
    hub: HubServer, photos: Path, monkeypatch: pytest.MonkeyPatch, token: str, expected: str
) -> None:
    token = hub.add_user("me", write=False) if token == "read" else token
    monkeypatch.setenv("HF_TOKEN", token)
    remember_options("hf://datasets", {"license": "none"})
    with pytest.raises(StorageError) as caught, HubFolder(URL):
        pass
    error = str(caught.value)
    assert expected in error
    assert not token or token not in error


def test_a_commit_in_between_is_ridden_out_unless_it_has_the_same_path(
    hub: HubServer, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.faults = FaultPlan()
    repository = hub.repositories["datasets", "me/cats"]
    writer = ShardWriter(URL, storage_options={"license": "mit"})
    with writer:
        writer.write({"__key__": "a", "txt": "one"})
        repository.commit({"other.txt": b"x"})
    assert texts(URL) == ["one"]
    writer = ShardWriter("hf://datasets/me/cats/more", resume=True).__enter__()
    writer.write({"__key__": "a", "txt": "one"})
    repository.commit({"more/shard_000000.tar": b"x" * 1000})
    with pytest.raises(StorageError, match=r"another more/shard_000000.tar by now"):
        writer.__exit__(None, None, None)
    assert commits(hub) == 1


def test_a_conflict_is_retried_once_on_the_new_parent(hub: HubServer) -> None:
    hub.faults = FaultPlan(faults=[Fault(kind="412", of="api", path="*/commit/*", requests=[0])])
    with ShardWriter(URL, storage_options={"license": "mit"}) as writer:
        writer.write({"__key__": "a", "txt": "one"})
    assert hub.count(status=412) == 1
    assert texts(URL) == ["one"]


def test_a_writer_continues_after_an_error(hub: HubServer) -> None:
    options: dict[str, Any] = {"samples_per_shard": 2, "resume": True, "storage_options": {"license": "mit"}}
    writer = ShardWriter(URL, **options).__enter__()
    for number in range(5):
        writer.write({"__key__": str(number), "txt": str(number)})
    writer.__exit__(RuntimeError, RuntimeError(), None)
    assert not commits(hub)
    with ShardWriter(URL, **options) as writer:
        for number in range(6):
            writer.write({"__key__": str(number), "txt": str(number)})
    assert writer.resumed == 4
    assert texts(URL) == [str(number) for number in range(6)]


def test_an_index_is_pushed_and_pulled(hub: HubServer, photos: Path, tmp_path: Path) -> None:
    assert main(["import", str(photos), str(tmp_path / "cats"), "--yes", "--split-ratio", "1,0,0"]) == 0
    url = "hf://datasets/me/cats/indexes/cats.energon-index"
    assert main(["index", "push", str(tmp_path / "cats"), url]) == 0
    assert main(["index", "push", str(tmp_path / "cats"), url]) == 0  # an index may be replaced
    assert main(["index", "pull", url, str(tmp_path / "meta"), "--data", str(tmp_path / "cats"), "--with-split"]) == 0
    assert len(open_dataset(tmp_path / "cats", meta_folder=tmp_path / "meta")) == PICTURES


def test_maps_reshards_and_exports_are_published(hub: HubServer, photos: Path, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    assert main(["import", str(photos), data, "--yes", "--split-ratio", "1,0,0"]) == 0
    function = tmp_path / "upper.py"
    function.write_text("def upper(sample):\n    return {'txt': sample['txt'].decode().upper()}\n")
    where = "hf://datasets/me/cats/"
    command = ["map", data, f"{function}:upper", "--raw", "--to-dataset", f"{where}upper", "--license", "mit"]
    assert main(command) == 0
    assert texts(f"{where}upper") == sorted(f"CAT {number}" for number in range(PICTURES))
    assert main(["reshard", data, f"{where}again", "--samples-per-shard", "5"]) == 0
    assert len(texts(f"{where}again")) == PICTURES
    assert main(["export", data, f"{where}table/cats.parquet"]) == 0
    assert main(["export", data, f"{where}files"]) == 0
    listed = {info.name for info in open_storage("hf://datasets/me/cats").list()}
    assert {"table/cats.parquet", "files/00.png", "files/11.txt"} <= listed
    with pytest.raises(ConfigError):
        remember_options("hf://datasets", {"licence": "mit"})
    assert main(["map", data, f"{function}:upper", "--raw", "--to-parts", f"{where}parts"]) == 1


def test_a_writer_that_was_killed_before_its_commit_is_published_by_the_next(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(HubFolder, "publish", fail)
        with pytest.raises(KeyboardInterrupt), ShardWriter(URL, storage_options={"license": "mit"}) as writer:
            writer.write({"__key__": "a", "txt": "one"})
    assert not commits(hub)
    with pytest.raises(AlreadyDoneError), ShardWriter(URL, resume=True):
        pass
    assert texts(URL) == ["one"]


def test_a_licence_is_asked_for_on_a_terminal(
    hub: HubServer, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = str(tmp_path / "data")
    assert main(["import", str(photos), data, "--yes", "--split-ratio", "1,0,0"]) == 0
    terminal = io.StringIO("mit\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert main(["reshard", data, URL]) == 0
    assert b"license: mit" in open_storage("hf://datasets/me/cats").read("README.md")


def test_many_files_are_in_few_commits_and_the_last_makes_them_a_dataset(
    hub: HubServer, photos: Path, tmp_path: Path
) -> None:
    repository = hub.repositories["datasets", "me/cats"]
    with HubFolder("hf://datasets/me/cats/many", is_file=True) as folder:
        path = Path(folder.path)
        (path / ".nv-meta").mkdir(parents=True)
        (path / ".nv-meta/.info.json").write_text("{}")
        (path / ".nv-meta/.lock").write_text("")
        for number in range(450):
            (path / f"{number}.txt").write_text(str(number))
        folder.publish("Add many")
    assert commits(hub) == 2
    assert repository is hub.repositories["datasets", "me/cats"]
    listed = [info.name for info in open_storage("hf://datasets/me/cats/many").list()]
    assert len(listed) == 450
    assert open_storage("hf://datasets/me/cats/many").exists(".nv-meta/.info.json")
    assert not open_storage("hf://datasets/me/cats/many").exists(".nv-meta/.lock")


@pytest.mark.parametrize("parts", [2])
def test_processes_write_to_one_repository(hub: HubServer, parts: int) -> None:
    with ShardWriter(URL, storage_options={"license": "mit"}) as writer:
        for rank in range(parts):
            with writer.part(rank) as part:
                part.write({"__key__": str(rank), "txt": str(rank)})
    assert texts(URL) == [str(rank) for rank in range(parts)]
    with pytest.raises(ConfigError, match="one process writes"):
        ShardWriter(URL, rank=1)


def test_an_index_of_a_repository_is_pushed_to_another_one(
    hub: HubServer, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "indexes"))
    assert main(["import", str(photos), str(tmp_path / "data"), "--yes", "--split-ratio", "1,0,0"]) == 0
    shards = {path.name: path.read_bytes() for path in (tmp_path / "data").glob("*.tar")}
    hub.create("datasets", "them/cats").commit(shards)
    assert main(["prepare", "hf://datasets/them/cats", "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    url = "hf://datasets/me/cats/indexes/cats.energon-index"
    assert main(["index", "push", "hf://datasets/them/cats", url]) == 0
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "of another user"))
    assert main(["index", "pull", url, "--with-split"]) == 0
    assert len(open_dataset("hf://datasets/them/cats")) == PICTURES
