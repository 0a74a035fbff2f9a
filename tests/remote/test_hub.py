"""Datasets in read-only repositories of the Hugging Face Hub."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import pickle
import re
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from energon_cli.main import main
from loader import WorkerConfig, get_savable_loader, get_train_dataset, open_dataset
from loader.errors import ConfigError, FormatError, StorageError
from loader.format.dataset_ref import DatasetRef
from loader.storage import commit_of, open_storage, remember_options
from loader.storage.remote.clients.http_client import HttpClient, WebAnswer
from loader.storage.remote.clients.hub import hub_client, request_pace
from loader.storage.remote.clients.hub.hub_client import HubClient
from loader.storage.remote.clients.hub.node_files import open_node_files
from loader.storage.remote.clients.hub.request_pace import PaceState, next_request, note_answer
from loader.storage.remote.object_url import parse_object_url
from loader.storage.remote.options import OPTIONS_VARIABLE, options_for
from tests.hub_server import PLANS as REQUESTS_OF_PLANS, Fault, FaultPlan, HubServer, hub_server

REPOSITORY = "hf://datasets/me/cats"
SAMPLES = 12  # of a shard


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    with hub_server() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setenv(OPTIONS_VARIABLE, "{}")
        remember_options("hf://datasets", {"stall_s": 5, "deadline_s": 20})
        yield hub


def tar_bytes(shard: int, text: str = "caption") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for sample in range(SAMPLES):
            for part, data in (("txt", f"{text} {shard} {sample}".encode()), ("bin", bytes([sample]) * 3000)):
                member = tarfile.TarInfo(f"{shard}_{sample:03d}.{part}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return file.getvalue()


def shards(count: int = 4, text: str = "caption") -> dict[str, bytes]:
    return {f"train/s_{shard:03d}.tar": tar_bytes(shard, text) for shard in range(count)}


def prepared(tmp_path: Path, url: str = REPOSITORY) -> Path:
    folder = tmp_path / "index"
    arguments = ("--meta-folder", str(folder), "--non-interactive", "--split-ratio", "1,0,0")
    assert main(["prepare", url, *arguments]) == 0
    return folder


def start_again() -> None:
    """Forget at which commit this process reads, as a new one does."""
    os.environ[OPTIONS_VARIABLE] = "{}"
    for path in Path(os.environ["ENERGON_CACHE_DIR"]).glob("energon-hub-*/answers/revision-*"):
        path.unlink()  # as if a minute had passed


def texts(url: str, meta: Path | None = None, workers: int = 0) -> list[str]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    dataset = get_train_dataset(
        url, worker_config=config, batch_size=1, shuffle_buffer_size=8, max_samples_per_sequence=4, meta_folder=meta,
        repeat=False,
    )  # fmt: skip
    with get_savable_loader(dataset) as loader:
        return sorted(batch["txt"][0] for batch in loader)


@pytest.mark.parametrize(
    "url",
    [
        "hf://datasets/me/cats",
        "hf://datasets/me/cats@main",
        "hf://datasets/me/cats@refs/pr/1",
        "hf://datasets/me/cats@refs%2Fpr%2F1",
        "hf://datasets/me/cats@v1",
        "hf://spaces/me/cats",
        "hf://me/cats",
        "hf://models/me/cats",
    ],
)
def test_files_of_each_kind_of_repository_and_revision_are_read(hub: HubServer, url: str) -> None:
    kind = next((kind for kind in ("datasets", "spaces") if f"//{kind}/" in url), "models")
    repository = hub.create(kind, "me/cats")
    files = {"a b#c%d@e/é.txt": b"x" * 100, "large.tar": bytes(range(256)) * 400, "empty.txt": b""}
    commit = repository.commit(files, "refs/pr/1" if "refs" in url else "main")
    if "@v1" in url:
        repository.tag("v1")
    storage = open_storage(url)
    assert {info.name: info.size_bytes for info in storage.list() if info.name != ".gitattributes"} == {
        name: len(data) for name, data in files.items()
    }
    assert {name: storage.read(name) for name in files} == files
    assert storage.read("large.tar", 1000, 1500) == files["large.tar"][1000:1500]
    assert storage.read("a b#c%d@e/é.txt", 3, 9) == b"x" * 6
    assert storage.stat("large.tar").etag == next(info.etag for info in storage.list() if info.name == "large.tar")
    assert storage.exists("a b#c%d@e")
    assert not storage.exists("gone.tar")
    assert commit_of(url) == commit
    with pytest.raises(StorageError, match="does not exist"):
        storage.read("gone.tar")


@pytest.mark.parametrize(
    "url", ["hf://datasets", "hf://datasets/me", "hf://me", "hf://datasets/me/cats@", "hf://a b/c", "hf://../api/me"]
)
def test_a_url_without_a_repository_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="names no repository"):
        open_storage(url)


@pytest.mark.parametrize(
    ("page", "url"),
    [
        ("datasets/me/cats", "hf://datasets/me/cats"),
        ("datasets/me/cats/tree/main/train/", "hf://datasets/me/cats@main/train"),
        ("me/cats/blob/refs%2Fpr%2F1/a.tar", "hf://me/cats@refs%2Fpr%2F1/a.tar"),
        ("spaces/me/cats/tree/v1", "hf://spaces/me/cats@v1"),
    ],
)
def test_a_page_in_place_of_a_url_is_refused_with_the_url(page: str, url: str) -> None:
    with pytest.raises(ConfigError, match="is a page") as caught:
        open_storage(f"https://huggingface.co/{page}")
    assert caught.value.hint == f"write {url}"
    parse_object_url(f"https://huggingface.co/{url[5:].partition('@')[0]}/resolve/main/a.tar")  # a file


def test_a_commit_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="commit to be 40 hexadecimal digits, found 'main'"):
        remember_options(REPOSITORY, {"commit": "main"})


def test_a_metadataset_of_a_repository_names_datasets_of_others_by_their_urls(
    hub: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    mix = b"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits: {train: {path: ../dogs}}\n"
    hub.create("datasets", "me/cats").commit({"mix.yaml": mix})
    assert main(["info", f"{REPOSITORY}@main/mix.yaml"]) == 1
    assert "'../dogs' leads out of the repository; write the whole URL" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_is_prepared_and_read_with_one_listing_and_one_address_a_shard(
    hub: HubServer, tmp_path: Path, workers: int
) -> None:
    hub.create("datasets", "me/cats").commit(shards())
    meta = prepared(tmp_path)
    assert texts(REPOSITORY, meta, workers) == sorted(
        f"caption {shard} {sample}" for shard in range(4) for sample in range(SAMPLES)
    )
    assert hub.count(kind="api", path="/api/datasets/me/cats/revision/*") == 1
    assert hub.count(kind="api", path="/api/datasets/me/cats/tree/*", status=200) == 1
    assert hub.count(kind="resolver", path="*.tar") == 4
    assert not hub.count(status=429)


def test_a_branch_that_moved_on_is_read_at_the_commit_that_was_indexed(
    hub: HubServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repository = hub.create("datasets", "me/cats")
    old = repository.commit(shards())
    meta = prepared(tmp_path)
    before = texts(REPOSITORY, meta)
    new = repository.commit(shards(text="other"))
    start_again()
    with caplog.at_level(logging.WARNING):
        assert texts(REPOSITORY, meta) == before
        assert texts(REPOSITORY, meta) == before
    messages = [record.getMessage() for record in caplog.records if "prepare it again" in record.getMessage()]
    assert len(messages) == 1
    assert old[:12] in messages[0]
    assert new[:12] in messages[0]
    # Preparing again takes the present commit, also in a process that has read the earlier one.
    assert main(["prepare", REPOSITORY, "--meta-folder", str(meta), "--non-interactive"]) == 0
    assert texts(REPOSITORY, meta) == [text.replace("caption", "other") for text in before]


def test_a_commit_that_was_chosen_is_read_and_its_shards_have_to_be_those_of_the_index(
    hub: HubServer, tmp_path: Path
) -> None:
    repository = hub.create("datasets", "me/cats")
    old = repository.commit(shards())
    meta = prepared(tmp_path)
    readme = repository.commit({"README.md": b"# Cats"})
    new = repository.commit(shards(text="other"))
    start_again()
    assert texts(f"{REPOSITORY}@{old}", meta) == texts(f"{REPOSITORY}@{readme}", meta)
    with pytest.raises(FormatError, match="changed since it was prepared"):
        texts(f"{REPOSITORY}@{new}", meta)


def test_a_pickled_storage_reads_the_commit_of_the_process_that_opened_it(hub: HubServer) -> None:
    repository = hub.create("datasets", "me/cats")
    repository.commit({"a.txt": b"old"})
    data = pickle.dumps(open_storage(REPOSITORY))
    repository.commit({"a.txt": b"new"})
    start_again()
    assert pickle.loads(data).read("a.txt") == b"old"


FAULTS: dict[str, tuple[Callable[[HubServer], Any], str]] = {
    "missing": (lambda hub: None, "for a private repository"),
    "private": (
        lambda hub: hub.create("datasets", "me/cats", private=True).commit(shards()),
        "for a private repository",
    ),
    "gated": (lambda hub: hub.create("datasets", "me/cats", gated=True).commit(shards()), "accept its conditions at"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_may_not_be_read_names_the_page_and_the_remedy(
    hub: HubServer, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    FAULTS[fault][0](hub)
    assert main(["preview", REPOSITORY]) == 1
    error = capsys.readouterr().err
    assert FAULTS[fault][1] in " ".join(error.split())
    assert f"{hub.url}/datasets/me/cats" in error
    assert "hf auth login" in error


def test_tokens_are_sent_and_shown_nowhere(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    token = hub.add_user("me")
    monkeypatch.setenv("HF_TOKEN", token)
    repository = hub.create("datasets", "me/cats", private=True)
    repository.commit(shards())
    with caplog.at_level(logging.DEBUG):
        meta = prepared(tmp_path)
        texts(REPOSITORY, meta)
        # An address that is refused for good shows neither the token nor the signature.
        hub.faults = FaultPlan(faults=[Fault(kind="403", of="cdn")])
        with pytest.raises(StorageError) as caught:
            open_storage(REPOSITORY).read("train/s_000.tar", 0, 10)
    written = "".join(path.read_text("latin-1") for path in meta.rglob("*") if path.is_file())
    everything = written + caplog.text + str(caught.value) + repr(caught.value) + os.environ[OPTIONS_VARIABLE]
    assert token not in everything
    assert "Signature=" not in everything
    assert not any(request.has_token for request in hub.log if request.kind == "cdn")
    assert all(request.has_token for request in hub.log if request.kind != "cdn")


def test_a_wrong_token_is_named(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.create("datasets", "me/cats").commit(shards())
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(StorageError) as caught:
        open_storage(REPOSITORY)
    assert "hf_wrong" not in str(caught.value)
    assert "HF_TOKEN" in (caught.value.hint or "")


def test_what_happens_to_a_repository_during_a_run_is_named_or_ridden_out(hub: HubServer) -> None:
    repository = hub.create("datasets", "me/cats")
    repository.commit({f"{name}.tar": tar_bytes(0) for name in "abc"})
    storage = open_storage(REPOSITORY)
    data = storage.read("a.tar")
    repository.rename("you/cats")
    assert storage.read("b.tar") == data
    repository.force_push({"a.tar": b"other" * 100})
    with pytest.raises(StorageError, match="Invalid rev") as caught:
        storage.read("c.tar")
    assert "forced away" in (caught.value.hint or "")
    repository.make_private()
    with pytest.raises(StorageError) as caught:
        storage.read("d.tar")
    assert "private" in (caught.value.hint or "")


@pytest.mark.parametrize("form", ["expires", "amz"])
def test_addresses_that_expire_are_requested_again_once(hub: HubServer, form: str) -> None:
    hub.create("datasets", "me/cats").commit({"a.tar": tar_bytes(0)})
    hub.addresses.form = form
    storage = open_storage(REPOSITORY)
    data = storage.read("a.tar")
    assert all(storage.read("a.tar", start, start + 10) == data[start : start + 10] for start in range(50))
    assert hub.count(kind="resolver") == 1
    hub.addresses.moved_s += 3700  # the server's clock says that it has expired
    assert storage.read("a.tar", 100, 200) == data[100:200]
    assert hub.count(kind="resolver") == 2
    hub.faults = FaultPlan(faults=[Fault(kind="expired", of="cdn", requests=[hub.count(kind="cdn")])])
    assert storage.read("a.tar", 100, 200) == data[100:200]


PASSING = ("429", "500", "503", "html", "reset", "reset in body", "short body", "wrong range", "whole file")


@pytest.mark.parametrize("kind", PASSING)
@pytest.mark.parametrize("of", ["api", "resolver", "cdn"])
def test_a_fault_that_passes_costs_more_requests_and_no_byte(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, kind: str, of: str
) -> None:
    monkeypatch.setattr(request_pace, "_JITTER_S", 0.0)
    if kind in ("wrong range", "whole file") and of != "cdn":
        pytest.skip("of ranges")
    files = {"a.tar": tar_bytes(0), "small.txt": b"small"}
    hub.create("datasets", "me/cats").commit(files)
    hub.faults = FaultPlan(faults=[Fault(kind=kind, of=of, requests=[0], retry_after_s=1)])
    storage = open_storage(REPOSITORY)
    assert storage.read("a.tar", 1000, 2000) == files["a.tar"][1000:2000]
    assert storage.read("small.txt") == b"small"
    assert {info.name for info in storage.list()} >= set(files)


def test_a_pointer_of_lfs_in_place_of_a_file_is_named(hub: HubServer) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
    hub.create("datasets", "me/cats").commit({"a.tar": pointer}, is_lfs=lambda path, size: False)
    with pytest.raises(StorageError, match="pointer of Git LFS") as caught:
        open_storage(REPOSITORY).read("a.tar", 0, 512)
    assert "git lfs push" in (caught.value.hint or "")


def test_a_proxy_that_answers_with_a_page_is_named(hub: HubServer) -> None:
    hub.create("datasets", "me/cats").commit({"a.tar": tar_bytes(0)})
    hub.faults = FaultPlan(faults=[Fault(kind="html 200", of="api")])
    with pytest.raises(StorageError, match="something else than JSON"):
        open_storage(REPOSITORY)


def test_an_offline_client_asks_nobody(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.create("datasets", "me/cats").commit(shards())
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(StorageError, match="HF_HUB_OFFLINE is set"):
        open_storage(REPOSITORY)
    assert not hub.log


def test_without_the_package_the_line_that_installs_it_is_named(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub.utils", None)
    with pytest.raises(ConfigError) as caught:
        open_storage(REPOSITORY)
    assert "energon-toolkit[hf]" in (caught.value.hint or "")


def test_a_public_hub_leads_to_no_private_address(hub: HubServer) -> None:
    hub.create("datasets", "me/cats").commit({"a.tar": tar_bytes(0)})
    storage = open_storage(REPOSITORY)
    with closing(HubClient(parse_object_url(REPOSITORY), options_for(REPOSITORY))) as client:
        address = client._addresses.of("a.tar")
        assert address.hub_kind == "private"  # of this test: it may lead to any
        client._addresses._known["a.tar"] = address._replace(hub_kind="public")
        with pytest.raises(OSError, match="is a private address"):
            client.get("a.tar", 0, 10)
    assert storage.read("a.tar", 0, 10)


def test_processes_of_a_node_share_listings_and_addresses(hub: HubServer) -> None:
    hub.create("datasets", "me/cats").commit({f"{n}.tar": tar_bytes(n) for n in range(20)})
    script = (
        "import sys; from loader.storage import open_storage\n"
        f"storage = open_storage({REPOSITORY!r})\n"
        "names = [info.name for info in storage.list() if info.name.endswith('.tar')]\n"
        "print(sum(len(storage.read(name, 0, 512)) for name in names))\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate(timeout=100)[0].strip() for process in processes] == ["10240"] * 4
    assert hub.count(path="*/tree/*") == 1
    assert hub.count(kind="resolver") == 20
    assert hub.count(path="*/revision/*") == 1


def test_a_listing_of_many_pages_is_whole(hub: HubServer) -> None:
    names = {f"folder {n % 7}/file_{n:05d}.txt" for n in range(3500)}
    hub.create("datasets", "me/cats").commit(dict.fromkeys(names, b"x"))
    listed = [info.name for info in open_storage(REPOSITORY).list() if info.name.endswith(".txt")]
    assert set(listed) == names
    assert listed == sorted(listed)
    assert hub.count(path="*/tree/*") == 4


def test_a_forked_worker_reads_after_its_parent_has(hub: HubServer) -> None:
    hub.create("datasets", "me/cats").commit({"a.tar": tar_bytes(0)})
    storage = open_storage(REPOSITORY)
    data = storage.read("a.tar")
    pid = os.fork()
    if not pid:
        os._exit(0 if storage.read("a.tar", 5, 500) == data[5:500] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert storage.read("a.tar", 5, 500) == data[5:500]


def test_commands_read_where_the_data_lies(hub: HubServer, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    hub.create("datasets", "me/cats").commit(shards())
    assert main(["info", REPOSITORY, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 4 * SAMPLES
    meta = prepared(tmp_path)
    capsys.readouterr()
    assert main(["lint", REPOSITORY, "--meta-folder", str(meta)]) == 0
    assert main(["preview", REPOSITORY, "--meta-folder", str(meta)]) == 0
    assert main(
        ["get", REPOSITORY, "train/s_001.tar/1_003", "--meta-folder", str(meta), "--output", str(tmp_path / "out")]
    ) in (0, 2)
    assert len(open_dataset(REPOSITORY, meta_folder=meta)) == 4 * SAMPLES


@pytest.fixture
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "indexes"
    monkeypatch.setenv("ENERGON_INDEX", str(folder))
    return folder


def test_what_is_written_about_a_repository_goes_to_the_users_folder(
    hub: HubServer, user_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.create("datasets", "me/cats").commit(shards())
    assert main(["prepare", REPOSITORY, "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    assert str(user_folder) in capsys.readouterr().err
    assert main(["exclude", REPOSITORY, "train/s_000.tar/0_000"]) == 0
    assert main(["info", REPOSITORY, "--json"]) == 0
    output = capsys.readouterr().out
    assert json.loads(output[output.index("{") :])["samples"] == 4 * SAMPLES
    assert {request.method for request in hub.log} <= {"GET", "HEAD"}


_TRAIN = """
import json, sys
from loader import WorkerConfig, get_savable_loader, get_train_dataset
url, rank, world_size, steps, state_in, state_out = sys.argv[1], *map(int, sys.argv[2:5]), *sys.argv[5:7]
config = WorkerConfig(rank=rank, world_size=world_size, num_workers=1, lanes=4)
dataset = get_train_dataset(
    url, worker_config=config, batch_size=1, shuffle_buffer_size=4, max_samples_per_sequence=2, repeat=False
)
with get_savable_loader(dataset) as loader:
    if state_in:
        loader.restore_state_global([json.load(open(path)) for path in state_in.split(",")])
    for step, batch in zip(range(steps), loader):
        print(batch["txt"][0], flush=True)
    json.dump(loader.save_state_rank(), open(state_out, "w"))
"""


def train(url: str, rank: int, world_size: int, *, steps: int, state: str, states: str = "") -> list[str]:
    arguments = [url, str(rank), str(world_size), str(steps), states, state]
    result = subprocess.run(
        [sys.executable, "-c", _TRAIN, *arguments], capture_output=True, text=True, timeout=100, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def first_rows(url: str) -> list[str]:
    """Return the keys of the first samples that `energon browse` shows."""
    command = [sys.executable, "-m", "energon_cli", "browse", url, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        page, _, query = json.loads(server.stdout.readline())["url"].partition("?")
        opener = build_opener(HTTPCookieProcessor())  # the first page sets the key of this server
        opener.open(f"{page}?{query}", timeout=20).close()
        with opener.open(f"{page}api/d/0/rows?start=0&count=3", timeout=20) as answer:
            rows = json.load(answer)["rows"]
        server.terminate()
        server.wait(20)
    return [row["key"] for row in rows]


def test_a_run_on_a_read_only_repository_with_a_pulled_index_is_resumed_after_the_branch_moved_on(
    hub: HubServer, user_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = hub.create("datasets", "me/cats")
    commit = repository.commit(shards())
    # One user prepares, and shares the index in a repository of indexes.
    assert main(["prepare", REPOSITORY, "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    assert main(["index", "push", REPOSITORY, str(tmp_path / "cats.energon-index")]) == 0
    hub.create("datasets", "you/indexes").commit({"cats.energon-index": tmp_path / "cats.energon-index"})
    # Another one pulls it, looks, checks and trains.
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "of another user"))
    hub.start_again()
    pulled = "hf://datasets/you/indexes/cats.energon-index"
    assert main(["index", "pull", pulled, "--with-split"]) == 0
    assert main(["lint", REPOSITORY]) == 0
    assert first_rows(REPOSITORY) == ["0_000", "0_001", "0_002"]
    state = tmp_path / "state"
    begun = [train(REPOSITORY, 0, 1, steps=20, state=f"{state}_0")]
    assert commit in Path(f"{state}_0").read_text()
    repository.commit(shards(text="other"))
    repository.commit({"README.md": b"# Cats"})
    for path in Path(os.environ["ENERGON_CACHE_DIR"]).glob("energon-hub-*/answers/revision-*"):
        path.unlink()
    rest = [
        train(REPOSITORY, rank, 2, steps=100, state=f"{state}_{rank}_of_2", states=f"{state}_0") for rank in range(2)
    ]
    seen = [text for texts in (*begun, *rest) for text in texts]
    assert sorted(seen) == sorted(f"caption {shard} {sample}" for shard in range(4) for sample in range(SAMPLES))
    assert not hub.count(status=429)
    assert hub.count(path="/api/datasets/me/cats/tree/*", status=200) <= 1


def test_a_copy_of_a_repository_finds_the_index_by_its_shards(
    hub: HubServer, user_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.create("datasets", "me/cats").commit(shards())
    assert main(["prepare", REPOSITORY, "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    copy = hub.create("datasets", "you/copied")
    copy.commit({"README.md": b"# Cats"} | shards())
    other = "hf://datasets/you/copied"
    folder = DatasetRef(REPOSITORY).find_meta().path
    assert DatasetRef(other).find_meta() == (folder, "same shards")
    assert texts(other) == texts(REPOSITORY)
    # So does an index that was pulled, and one in a folder of others.
    assert main(["index", "push", REPOSITORY, str(tmp_path / "cats.energon-index")]) == 0
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "mine"))
    with pytest.raises(StorageError, match="not a prepared dataset"):
        texts(other)
    assert main(["index", "pull", str(tmp_path / "cats.energon-index"), "--with-split"]) == 0
    assert texts(other) == texts(REPOSITORY)
    monkeypatch.setenv("ENERGON_INDEX", f"{tmp_path / 'none'}:{tmp_path / 'mine'}")
    assert DatasetRef(other).find_meta().path.startswith(str(tmp_path / "mine"))
    # Other shards find none: neither those of a later commit, nor more of them.
    copy.commit({"4.tar": tar_bytes(4)})
    start_again()
    assert DatasetRef(other).find_meta().origin == "data"


def test_a_folder_of_indexes_that_cannot_be_read_hides_no_other(
    hub: HubServer, user_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.create("datasets", "me/cats").commit(shards())
    assert main(["prepare", REPOSITORY, "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    hub.create("datasets", "you/copied").commit(shards())
    other = "hf://datasets/you/copied"
    mine, (entry,) = DatasetRef(REPOSITORY).find_meta().path, user_folder.glob("by-shards/*")
    # Where others have the entry is a folder; of a URL, nothing answers.
    (tmp_path / "others/by-shards" / entry.name).mkdir(parents=True)
    monkeypatch.setenv("ENERGON_INDEX", f"{tmp_path / 'others'}:{user_folder}")
    assert DatasetRef(other).find_meta() == (mine, "same shards")
    monkeypatch.setenv("ENERGON_INDEX", f"{user_folder}:http://127.0.0.1:1/indexes")
    assert DatasetRef(REPOSITORY).find_meta() == (mine, "user")


def test_an_index_that_was_rebuilt_is_of_its_new_shards(hub: HubServer, user_folder: Path) -> None:
    first = hub.create("datasets", "me/cats")
    first.commit(shards())
    prepare = ["prepare", REPOSITORY, "--non-interactive", "--split-ratio", "1,0,0"]
    assert main(prepare) == 0
    hub.create("datasets", "you/copied").commit(shards())
    other = "hf://datasets/you/copied"
    assert DatasetRef(other).find_meta().origin == "same shards"
    first.commit({"4.tar": tar_bytes(4)})
    start_again()
    assert main([*prepare, "--force-overwrite"]) == 0
    start_again()
    assert DatasetRef(other).find_meta().origin == "data"


def test_the_index_of_other_data_is_not_changed(hub: HubServer, user_folder: Path) -> None:
    hub.create("datasets", "me/cats").commit(shards())
    assert main(["prepare", REPOSITORY, "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    hub.create("datasets", "you/copied").commit(shards())
    other = "hf://datasets/you/copied"
    files = {
        path: path.read_bytes() for path in Path(DatasetRef(REPOSITORY).find_meta().path).rglob("*") if path.is_file()
    }
    with pytest.raises(StorageError, match="metadata of other data"):
        DatasetRef(other).storage().write(".nv-meta/split.yaml", b"")
    assert main(["split", other, "--split-ratio", "1,1,0", "--split-by", "samples"]) == 0
    assert main(["lint", other, "--fix"]) == 0
    assert {path: path.read_bytes() for path in files} == files
    assert DatasetRef(other).find_meta().origin == "user"
    assert main(["split", other, "--undo"]) == 0


def test_shards_lead_to_no_index_that_was_pulled_for_others(
    hub: HubServer, user_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.create("datasets", "me/cats").commit(shards())
    assert main(["prepare", REPOSITORY, "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    assert main(["index", "push", REPOSITORY, str(tmp_path / "cats.energon-index")]) == 0
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "mine"))
    hub.create("datasets", "me/dogs").commit({"4.tar": tar_bytes(4)})
    pull = ["index", "pull", str(tmp_path / "cats.energon-index"), "--data", "hf://datasets/me/dogs"]
    assert main(pull) == 0
    assert not (tmp_path / "mine/by-shards").exists()


@pytest.mark.parametrize("text", ["../../cats/index/0/layout.json", "cats", "cats/index/../layout.json", "\udcff"])
def test_an_entry_of_others_leads_to_their_folder_of_indexes_alone(
    hub: HubServer, user_folder: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    hub.create("datasets", "me/cats").commit(shards())
    assert main(["prepare", REPOSITORY, "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    hub.create("datasets", "you/copied").commit(shards())
    (entry,) = Path(os.environ["ENERGON_INDEX"]).glob("by-shards/*")
    assert DatasetRef("hf://datasets/you/copied").find_meta().origin == "same shards"
    entry.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert DatasetRef("hf://datasets/you/copied").find_meta().origin == "data"


def test_info_and_plan_say_how_many_requests_a_run_sends(
    hub: HubServer,
    user_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub.create("datasets", "me/cats").commit(shards())
    assert main(["info", REPOSITORY, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hub_requests"]["listing_pages"] == 1
    assert main(["prepare", REPOSITORY, "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    capsys.readouterr()
    assert main(["info", REPOSITORY, "--nodes", "2", "--json"]) == 0
    needs = json.loads(capsys.readouterr().out)["hub_requests"]
    # Two nodes, which share no folder of a cache.
    hub.start_again()
    monkeypatch.setenv(OPTIONS_VARIABLE, "{}")
    for node in ("a", "b"):
        (tmp_path / node).mkdir()
        monkeypatch.setenv("ENERGON_CACHE_DIR", str(tmp_path / node))
        train(REPOSITORY, 0, 1, steps=100, state=str(tmp_path / f"state_{node}"))
    counted = (hub.count(kind="api"), hub.count(kind="resolver"))
    assert counted == (needs["api"], needs["resolver_an_hour"]) == (2, 8)
    assert needs["listing_pages"] == 0
    limits = {plan["name"].lower(): (plan["api"], plan["resolver"]) for plan in needs["plans"]}
    assert limits == {name: plan[:2] for name, plan in REQUESTS_OF_PLANS.items()}
    # A plan counts the nodes by its ranks.
    options = ["--batch-cost", "txt.bytes=100", "--world-size", "16", "--lanes", "16"]
    assert main(["plan", REPOSITORY, *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hub_requests"] == needs
    for command in (["info", REPOSITORY, "--nodes", "2"], ["plan", REPOSITORY, *options]):
        assert main(command) == 0
        assert "2 nodes: 2 to the API at the start, at most 8 to the resolver an hour" in capsys.readouterr().out
    # Nothing is said about other data.
    assert main(["import", REPOSITORY, str(tmp_path / "copy"), "--yes"]) == 0
    capsys.readouterr()
    assert main(["info", str(tmp_path / "copy"), "--json"]) == 0
    assert "hub_requests" not in json.loads(capsys.readouterr().out)


SCRIPT = """
from loader import WorkerConfig, get_loader, get_train_dataset
config = WorkerConfig(rank=0, world_size=16, num_workers=0, lanes=16)
get_loader(get_train_dataset({path!r}, worker_config=config, batch_cost={{"txt.bytes": 100}}))
"""


def test_the_requests_of_the_datasets_of_a_metadataset_and_of_a_script_are_summed(
    hub: HubServer, user_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Two folders of one repository, another repository, and a dataset that is missing.
    files = shards(3)
    hub.create("datasets", "me/cats").commit({f"{folder}/{name}": files[name] for folder in "ab" for name in files})
    hub.create("datasets", "me/dogs").commit(shards(2))
    parts = [f"{REPOSITORY}/a", f"{REPOSITORY}/b", "hf://datasets/me/dogs"]
    for path in parts:
        assert main(["prepare", path, "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    entries = "".join(f"{{weight: 1, path: {path!r}}}, " for path in (*parts, parts[0]))
    head = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n"
    mix, faulty = tmp_path / "mix.yaml", tmp_path / "faulty.yaml"
    mix.write_text(f"{head}  train: {{blend: [{entries}]}}\n  val: {{path: {parts[2]!r}, split_part: train}}\n")
    faulty.write_text(mix.read_text().replace("me/dogs", "me/gone"))
    capfd.readouterr()
    assert main(["info", str(mix), "--nodes", "2", "--json"]) == 0
    needs = json.loads(capfd.readouterr().out)["hub_requests"]
    assert [needs[key] for key in ("nodes", "api", "resolver_an_hour", "listing_pages")] == [2, 4, 16, 0]
    assert main(["info", str(faulty), "--nodes", "2", "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["hub_requests"]["resolver_an_hour"] == 12
    # A plan counts the nodes by its ranks.
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(path=str(mix)))
    options = ["--batch-cost", "txt.bytes=100", "--world-size", "16", "--lanes", "16"]
    for arguments in ([str(mix), *options], [str(script)]):
        assert main(["plan", *arguments, "--json"]) == 0
        assert json.loads(capfd.readouterr().out)["hub_requests"] == needs
    assert main(["plan", str(script), "--ranks-of-node", "4", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["hub_requests"]["api"] == 8
    for command in (["info", str(mix), "--nodes", "2"], ["plan", str(mix), *options]):
        assert main(command) == 0
        assert "requests to the hub: 2 nodes: 4 to the API at the start" in capfd.readouterr().out


def test_a_dataset_with_its_index_in_the_repository_is_read_at_the_commit_that_has_both(
    hub: HubServer,
    user_folder: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hub.create("datasets", "me/cats").commit(shards())
    meta = prepared(tmp_path)
    # The index names the commit before itself; copied to another repository, one that is nowhere.
    index = {f".nv-meta/{path.relative_to(meta)}": path.read_bytes() for path in meta.rglob("*") if path.is_file()}
    mix = b"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits: {train: {path: .}}\n"
    for name in ("me/cats", "me/copy"):
        repository = hub.repositories.get(("datasets", name)) or hub.create("datasets", name)
        repository.commit({**index, **shards(), "mix.yaml": mix})
        start_again()
        url = f"hf://datasets/{name}"
        with caplog.at_level(logging.WARNING):
            assert len(open_dataset(url)) == 4 * SAMPLES
            assert main(["lint", url]) == 0
            assert main(["info", f"{url}/mix.yaml"]) == 0
            assert "48 samples" in capsys.readouterr().out
            # The copy of the index names the commit of the copied one.
            assert main(["exclude", url, "train/s_000.tar/0_000"]) == 0
            start_again()
            assert main(["lint", url]) == 0
            assert main(["preview", url]) == 0
        assert "prepare it again" not in caplog.text


def test_the_hint_of_files_that_are_no_shards_imports_them(
    hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chats = [{"instruction": f"Say {n}.", "output": f"{n}"} for n in range(20)]
    hub.create("datasets", "me/chats").commit({"chats.json": json.dumps(chats).encode()})
    monkeypatch.chdir(tmp_path)
    assert main(["prepare", "hf://datasets/me/chats", "--yes"]) == 1
    command = capsys.readouterr().err.partition("run: energon ")[2].split("\n")[0]
    assert command == "import hf://datasets/me/chats chats-dataset --yes"
    assert main(command.split()) == 0
    assert len(open_dataset(tmp_path / "chats-dataset")) == 20
    # No command of this machine unpacks an archive there.
    packed = {"a.json": json.dumps([{"image": "x.jpg", "caption": "a"}]).encode(), "images.zip": b"PK\5\6" + bytes(18)}
    hub.create("datasets", "me/packed").commit(packed)
    assert main(["import", "hf://datasets/me/packed", "packed", "--yes"]) == 1
    assert "unpack its archives, and import the copy" in " ".join(capsys.readouterr().err.split())
    assert not hub.count(path="/api/agent-harnesses")  # of the client, which asks once in each process


@pytest.mark.usefixtures("user_folder")
def test_a_trace_names_the_commit(hub: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    commit = hub.create("datasets", "me/cats").commit(shards())
    assert main(["prepare", REPOSITORY, "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    capsys.readouterr()
    assert main(["trace", REPOSITORY, "--step", "1", "--batch-size", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["dataset"] == f"{REPOSITORY}@{commit}"


@pytest.fixture
def alter(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str, WebAnswer], WebAnswer]], None]:
    """Return what alters the answers of the hub on their way, as a bad mirror does."""
    plain = HttpClient.ask

    def set_change(change: Callable[[str, WebAnswer], WebAnswer]) -> None:
        monkeypatch.setattr(
            HttpClient, "ask", lambda self, *args, **named: change(args[1], plain(self, *args, **named))
        )

    return set_change


Alter = Callable[[Callable[[str, WebAnswer], WebAnswer]], None]


def with_headers(answer: WebAnswer, **headers: str) -> WebAnswer:
    return answer._replace(headers=answer.headers | {name.replace("_", "-"): text for name, text in headers.items()})


def test_the_token_stays_with_a_mirror_that_passes_on_the_pages_of_the_hub(hub: HubServer, alter: Alter) -> None:
    hub.create("datasets", "me/cats").commit({f"{n:04d}.txt": b"x" for n in range(1200)})
    asked = []

    def change(url: str, answer: WebAnswer) -> WebAnswer:
        asked.append(url)
        link = answer.headers.get("link", "")
        return with_headers(answer, link=link.replace(hub.url, "http://hub.example")) if link else answer

    alter(change)
    assert sum(info.name.endswith(".txt") for info in open_storage(REPOSITORY).list()) == 1200
    assert all(url.startswith(f"{hub.url}/") for url in asked)


@pytest.mark.parametrize(
    "entry",
    [
        b"7",
        b'{"type": "file"}',
        b'{"type": "file", "path": 7, "oid": "a", "size": 1}',
        b'{"type": "file", "path": "a.tar", "oid": "a", "size": -1}',
        b'{"type": "file", "path": "a.tar", "oid": "a", "size": 1, "lfs": 7}',
        b"[" * 100_000,
    ],
)
def test_a_listing_of_another_form_is_named(hub: HubServer, alter: Alter, entry: bytes) -> None:
    hub.create("datasets", "me/cats").commit({"a.tar": tar_bytes(0)})
    alter(lambda url, answer: answer._replace(data=b"[%s]" % entry) if "/tree/" in url else answer)
    with pytest.raises(StorageError, match=r"listing is invalid|something else than JSON"):
        list(open_storage(REPOSITORY).list())


def test_a_listing_without_an_end_is_named(hub: HubServer, alter: Alter) -> None:
    hub.create("datasets", "me/cats").commit({"a.tar": tar_bytes(0)})
    alter(lambda url, answer: with_headers(answer, link='</api/again>; rel="next"')._replace(data=b"[]", status=200)
          if "/tree/" in url or "/again" in url else answer)  # fmt: skip
    with pytest.raises(StorageError, match="same page"):
        list(open_storage(REPOSITORY).list())


@pytest.mark.parametrize("target", ["http://[", "file:///etc/passwd"])
def test_a_redirect_to_no_url_is_named(hub: HubServer, alter: Alter, target: str) -> None:
    hub.create("datasets", "me/cats").commit({"a.tar": tar_bytes(0)})
    alter(lambda url, answer: with_headers(answer, location=target) if "/resolve/" in url else answer)
    with pytest.raises(StorageError, match="not safe"):
        open_storage(REPOSITORY).read("a.tar", 0, 10)


def test_a_small_file_that_became_a_large_one_is_read(hub: HubServer, alter: Alter) -> None:
    hub.create("datasets", "me/cats").commit({"a.txt": b"small file"})
    storage = open_storage(REPOSITORY)
    assert storage.read("a.txt", 0, 5) == b"small"
    at_other_host = f"{hub.url.replace('127.0.0.1', 'localhost')}/datasets/me/cats/resolve/main/a.txt"
    alter(lambda url, answer: with_headers(answer._replace(status=302, data=b""), location=at_other_host))
    assert storage.read("a.txt", 2, 8) == b"all fi"


def test_other_bytes_of_a_small_file_are_refused(hub: HubServer, alter: Alter) -> None:
    hub.create("datasets", "me/cats").commit({"a.txt": b"small file"})
    storage = open_storage(REPOSITORY)
    alter(lambda url, answer: with_headers(answer, content_range="bytes 4-7/10") if answer.status == 206 else answer)
    with pytest.raises(StorageError, match="received others"):
        storage.read("a.txt", 2, 6)


def test_redirects_without_an_end_are_named(hub: HubServer, alter: Alter) -> None:
    hub.create("datasets", "me/cats").commit({"a.txt": b"small file"})
    storage = open_storage(REPOSITORY)
    alter(lambda url, answer: with_headers(answer._replace(status=302), location=f"{hub.url}/again/resolve/main/a"))
    with pytest.raises(StorageError, match="20 times with 429 Too Many Requests or a redirect"):
        storage.read("a.txt")
    assert hub.count() < 30


def test_answers_of_another_release_are_asked_for_again(hub: HubServer) -> None:
    hub.create("datasets", "me/cats").commit({"a.tar": tar_bytes(0)})
    assert open_storage(REPOSITORY).read("a.tar")
    folder = Path(os.environ["ENERGON_CACHE_DIR"])
    for number, path in enumerate(folder.glob("energon-hub-*/answers/*-*")):
        path.write_bytes([b"", b"text", zlib.compress(b'{"of": "another form"}')][number % 3])
    with closing(HubClient(parse_object_url(REPOSITORY), options_for(REPOSITORY))) as client:
        assert client.get_all("a.tar").data == tar_bytes(0)
        assert [each.key for page in client.pages("") for each in page if each.key.endswith(".tar")] == ["a.tar"]
        assert client.commit() == commit_of(REPOSITORY)


def test_a_file_that_is_too_large_to_be_read_at_once_is_named(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.create("datasets", "me/cats").commit({"a.tar": tar_bytes(0)})
    monkeypatch.setattr(hub_client, "MAX_WHOLE_BYTES", 5000)
    storage = open_storage(REPOSITORY)
    with pytest.raises(StorageError, match=f"it has {len(tar_bytes(0)):,} bytes, more than the 5,000"):
        storage.read("a.tar")
    assert storage.read("a.tar", 1000, 2000) == tar_bytes(0)[1000:2000]


def test_a_hub_that_repeats_the_token_in_an_error_is_not_quoted(
    hub: HubServer, alter: Alter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    words = "no user has hf_secret, see https://cas.example/x?Signature=abc"
    alter(lambda url, answer: with_headers(answer._replace(status=401), x_error_message=words))
    with pytest.raises(StorageError, match="no user has …") as caught:
        open_storage(REPOSITORY)
    assert "hf_secret" not in repr((caught.value, caught.value.__cause__))
    assert "abc" not in repr((caught.value, caught.value.__cause__))


def test_a_full_disk_keeps_what_is_known_in_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, name = open_node_files(str(tmp_path)), f"pace-{'0' * 32}"
    files.write(name, b"before")

    def is_full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as context:
        context.setattr(os, "rename", is_full)
        files.write(name, b"after")
    assert files.read(name) == b"after"
    files.write(name, b"at last")
    assert files.read(name) == b"at last"


@pytest.mark.parametrize("expires", ["1000", "-5", "9" * 400])
def test_an_address_that_has_expired_by_this_clock_is_used_for_a_while(
    hub: HubServer, alter: Alter, expires: str
) -> None:
    hub.create("datasets", "me/cats").commit({"a.tar": tar_bytes(0)})
    storage = open_storage(REPOSITORY)

    def change(url: str, answer: WebAnswer) -> WebAnswer:
        location = re.sub(r"Expires=\d+", f"Expires={expires}", answer.headers.get("location", ""))
        return with_headers(answer, location=location) if location else answer

    alter(change)
    with closing(HubClient(parse_object_url(REPOSITORY), options_for(REPOSITORY))) as client:
        assert client._addresses.of("a.tar") == client._addresses.of("a.tar")
    assert hub.count(kind="resolver") == 1
    assert storage.exists("a.tar")


def test_a_clock_that_was_set_back_does_not_stop_requests() -> None:
    late = PaceState(limit=1000, left=0, ends_s=100_000)
    assert next_request(late, 99_900)[1] == 100_000
    assert next_request(late, 50)[1] == 50


def test_refusals_without_a_time_are_ridden_out_for_a_window() -> None:
    state = note_answer(PaceState(), {}, 1000.0, is_refused=True)
    assert 20 * (next_request(state, 1000.0)[1] - 1000) >= state.window_s


def test_space_around_an_endpoint_is_left_out(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.create("datasets", "me/cats").commit({"a.tar": tar_bytes(0)})
    monkeypatch.setenv("HF_ENDPOINT", f" {hub.url}/ \n")
    assert open_storage(REPOSITORY).exists("a.tar")


def test_a_branch_that_never_was_is_named(hub: HubServer) -> None:
    hub.create("datasets", "me/cats").commit({"a.tar": tar_bytes(0)})
    with pytest.raises(StorageError, match="Invalid rev id: v9") as caught:
        open_storage(f"{REPOSITORY}@v9")
    assert "check its name" in (caught.value.hint or "")


def test_what_a_killed_process_and_earlier_runs_left_in_the_node_folder_is_removed(tmp_path: Path) -> None:
    answers = tmp_path / "cache" / f"energon-hub-{os.getuid()}" / "answers"
    answers.mkdir(parents=True, mode=0o700)
    old = {f"address-{'0' * 32}", f"address-{'1' * 32}-12-345.partial"}
    for name in (*old, "of another program"):
        (answers / name).write_bytes(b"")
        os.utime(answers / name, (0, 0))
    (answers / f"address-{'2' * 32}").write_bytes(b"new")
    files = open_node_files(str(tmp_path / "cache"))
    assert {path.name for path in answers.iterdir()} == {"of another program", f"address-{'2' * 32}", "locks"}
    assert files.read(f"address-{'2' * 32}") == b"new"


def test_an_index_that_names_a_commit_of_a_pull_request_is_refused(
    hub: HubServer, user_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = hub.create("datasets", "me/cats")
    repository.commit(shards())
    repository.branch("refs/pr/1")
    forged = repository.commit(shards(text="poison"), "refs/pr/1")
    assert main(["prepare", f"{REPOSITORY}@refs/pr/1", "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    assert user_folder.exists()
    assert main(["index", "push", f"{REPOSITORY}@refs/pr/1", str(tmp_path / "x.energon-index")]) == 0
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "of another user"))
    assert main(["index", "pull", str(tmp_path / "x.energon-index"), "--data", REPOSITORY, "--with-split"]) == 0
    start_again()
    with pytest.raises(StorageError, match="not in the history of main") as caught:
        open_dataset(REPOSITORY)[0]
    assert forged in str(caught.value)
    assert "@COMMIT" in (caught.value.hint or "")
