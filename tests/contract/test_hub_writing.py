"""The hub of the tests answers the real client, when it writes, as the hub does."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi, constants
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, RepositoryNotFoundError

from tests.hub_server import Fault, FaultPlan, HubServer, hub_server

# Of the client's uploads by LFS, from the HTTP library that it uses.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload raw bytes")

TAR = bytes(range(256)) * 400
NAME = "cats/pictures"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    with hub_server() as hub:
        yield hub


@pytest.fixture
def api(hub: HubServer) -> HfApi:
    api = HfApi(endpoint=hub.url, token=hub.add_user("cats", organizations=("zoo",)))
    api.create_repo(NAME, repo_type="dataset")
    return api


def files(hub: HubServer, revision: str = "main", name: str = NAME) -> dict[str, bytes]:
    tree = hub.repositories["datasets", name].find(revision).tree
    return {path: blob.read() for path, blob in tree.files.items() if path != ".gitattributes"}


def test_repositories_are_created_moved_and_deleted(hub: HubServer, api: HfApi) -> None:
    assert api.create_repo("zoo/birds", repo_type="dataset", private=True) == f"{hub.url}/datasets/zoo/birds"
    assert hub.repositories["datasets", "zoo/birds"].is_private
    assert api.create_repo("zoo/birds", repo_type="dataset", exist_ok=True)
    with pytest.raises(HfHubHTTPError, match="already created") as refused:
        api.create_repo("zoo/birds", repo_type="dataset")
    assert refused.value.response.status_code == 409
    api.move_repo("zoo/birds", "cats/birds", repo_type="dataset")
    assert api.dataset_info("zoo/birds").id == "cats/birds"
    api.update_repo_settings("cats/birds", repo_type="dataset", gated="auto", private=False)
    assert hub.repositories["datasets", "cats/birds"].gated == "auto"
    api.delete_repo("cats/birds", repo_type="dataset")
    with pytest.raises(RepositoryNotFoundError):
        api.dataset_info("cats/birds")


def test_small_and_large_files_are_committed(hub: HubServer, api: HfApi, tmp_path: Path) -> None:
    info = api.upload_file(path_or_fileobj=b"# Cats", path_in_repo="README.md", repo_id=NAME, repo_type="dataset")
    (tmp_path / "train").mkdir()
    (tmp_path / "train/0000.tar").write_bytes(TAR)
    (tmp_path / "train/0001.tar").write_bytes(TAR[1:])
    (tmp_path / "list.txt").write_text("0000 0001")
    api.upload_folder(folder_path=tmp_path, repo_id=NAME, repo_type="dataset", commit_message="Add shards")
    expected = {"README.md": b"# Cats", "train/0000.tar": TAR, "train/0001.tar": TAR[1:], "list.txt": b"0000 0001"}
    assert files(hub) == expected
    titles = [commit.title for commit in api.list_repo_commits(NAME, repo_type="dataset")]
    assert titles == ["Add shards", "Upload README.md with huggingface_hub", "initial commit"]
    assert files(hub, info.oid) == {"README.md": b"# Cats"}
    assert hub.count(method="PUT", kind="cdn") == 2


def test_a_large_file_is_uploaded_in_parts(hub: HubServer, api: HfApi) -> None:
    hub.part_bytes = 50_000
    api.upload_file(path_or_fileobj=TAR, path_in_repo="train/0000.tar", repo_id=NAME, repo_type="dataset")
    assert files(hub) == {"train/0000.tar": TAR}
    assert hub.count(method="PUT", kind="cdn") == 3


def test_bytes_that_the_hub_has_are_not_uploaded_again(hub: HubServer, api: HfApi) -> None:
    for path in ("a.tar", "b.tar"):
        api.upload_file(path_or_fileobj=TAR, path_in_repo=path, repo_id=NAME, repo_type="dataset")
    assert files(hub) == {"a.tar": TAR, "b.tar": TAR}
    assert hub.count(method="PUT", kind="cdn") == 1


def test_files_are_deleted_and_copied(hub: HubServer, api: HfApi) -> None:
    hub.repositories["datasets", NAME].commit({"a/1.txt": b"1", "a/2.txt": b"2", "b.txt": b"b", "c.tar": TAR})
    operations: list[CommitOperationAdd | CommitOperationCopy | CommitOperationDelete] = [
        CommitOperationDelete("a/"),
        CommitOperationCopy("c.tar", "d.tar"),
        CommitOperationAdd("e.txt", b"e"),
        CommitOperationDelete("b.txt"),
    ]
    api.create_commit(NAME, operations, commit_message="Tidy up", repo_type="dataset")
    assert files(hub) == {"c.tar": TAR, "d.tar": TAR, "e.txt": b"e"}
    with pytest.raises(EntryNotFoundError, match="A file with this name doesn't exist"):
        api.delete_file("missing.txt", NAME, repo_type="dataset")


def test_a_commit_on_another_parent_is_refused(hub: HubServer, api: HfApi) -> None:
    parent = api.dataset_info(NAME).sha
    hub.repositories["datasets", NAME].commit({"a.txt": b"of another writer"})
    with pytest.raises(HfHubHTTPError, match="A commit has happened since") as refused:
        api.create_commit(
            NAME, [CommitOperationAdd("b.txt", b"")], commit_message="Add", repo_type="dataset", parent_commit=parent
        )
    assert refused.value.response.status_code == 412
    assert files(hub) == {"a.txt": b"of another writer"}


def test_branches_tags_and_pull_requests_are_made(hub: HubServer, api: HfApi) -> None:
    api.create_branch(NAME, branch="next/try", repo_type="dataset")
    api.create_tag(NAME, tag="v1", repo_type="dataset")
    common: dict[str, Any] = {"repo_id": NAME, "repo_type": "dataset"}
    api.upload_file(path_or_fileobj=b"1", path_in_repo="a.txt", revision="next/try", **common)
    opened = api.upload_file(path_or_fileobj=b"2", path_in_repo="b.txt", create_pr=True, **common)
    assert (opened.pr_revision, files(hub, "refs/pr/1")) == ("refs/pr/1", {"b.txt": b"2"})
    assert (files(hub), files(hub, "v1"), files(hub, "next/try")) == ({}, {}, {"a.txt": b"1"})
    api.delete_branch(NAME, branch="next/try", repo_type="dataset")
    api.delete_tag(NAME, tag="v1", repo_type="dataset")
    assert set(hub.repositories["datasets", NAME].refs) == {"refs/heads/main", "refs/pr/1"}


def test_only_owners_with_a_token_that_writes_may_write(hub: HubServer, api: HfApi) -> None:
    for token, status in ((False, 401), (hub.add_user("dogs"), 403), (hub.add_user("cats", write=False), 403)):
        other = HfApi(endpoint=hub.url, token=token)
        with pytest.raises(HfHubHTTPError) as refused:
            other.upload_file(path_or_fileobj=b"", path_in_repo="a.txt", repo_id=NAME, repo_type="dataset")
        assert refused.value.response.status_code == status
        with pytest.raises(HfHubHTTPError):
            other.create_repo("cats/other", repo_type="dataset")
    assert files(hub) == {}


def test_a_lost_answer_leaves_the_commit(hub: HubServer, api: HfApi) -> None:
    hub.faults = FaultPlan(faults=[Fault(kind="lost answer", path="*/commit/main", requests=[0])])
    with pytest.raises(Exception, match=r"reset|disconnected"):
        api.upload_file(path_or_fileobj=b"1", path_in_repo="a.txt", repo_id=NAME, repo_type="dataset")
    assert files(hub) == {"a.txt": b"1"}


# ------------------------------------------------------------------------------------------------------------ Xet

_WRITES = """
import sys
from pathlib import Path
from huggingface_hub import HfApi
api = HfApi()
api.create_repo("cats/pictures", repo_type="dataset")
common = {"repo_id": "cats/pictures", "repo_type": "dataset"}
api.upload_file(path_or_fileobj=Path(sys.argv[1]), path_in_repo="train/0000.tar", **common)
api.upload_folder(folder_path=sys.argv[2], path_in_repo="more", **common)
"""

_READS = """
import sys
from pathlib import Path
from huggingface_hub import hf_hub_download
for path in sys.argv[1:]:
    data = Path(hf_hub_download("cats/pictures", path, repo_type="dataset")).read_bytes()
    print(len(data))
"""


def run(hub: HubServer, folder: Path, token: str, program: str, *arguments: str, **environment: str) -> str:
    """Run a program with the client's own settings: hf-xet has threads, and this process must be able to fork."""
    variables = {"HF_ENDPOINT": hub.url, "HF_TOKEN": token, "HF_HOME": str(folder), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=False,
        env=os.environ | variables | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_files_are_uploaded_by_xet_and_read_by_the_bridge(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(TAR)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/b.tar").write_bytes(TAR[1:])
    (tmp_path / "folder/c.txt").write_bytes(b"small")
    with hub_server(xet_store=tmp_path / "store") as hub:
        token = hub.add_user("cats")
        run(hub, tmp_path / "home", token, _WRITES, str(tmp_path / "a.tar"), str(tmp_path / "folder"))
        assert files(hub) == {"train/0000.tar": TAR, "more/b.tar": TAR[1:], "more/c.txt": b"small"}
        entry = hub.repositories["datasets", NAME].find("main").tree.files["train/0000.tar"]
        assert entry.sha256 == hashlib.sha256(TAR).hexdigest()
        assert len(entry.xet_hash) == 64
        assert not hub.count(method="PUT")
        for disabled in ("0", "1"):
            hub.log.clear()
            read = run(hub, tmp_path / disabled, token, _READS, "train/0000.tar", HF_HUB_DISABLE_XET=disabled)
            assert read.split() == [str(len(TAR))]
            assert hub.count(kind="cdn") == int(disabled)


def test_what_a_test_commits_is_read_by_xet(tmp_path: Path) -> None:
    with hub_server(xet_store=tmp_path / "store") as hub:
        hub.create("datasets", NAME, xet=True).commit({"train/0000.tar": TAR})
        read = run(hub, tmp_path / "home", hub.add_user("dogs"), _READS, "train/0000.tar")
        assert (read.split(), hub.count(kind="cdn")) == ([str(len(TAR))], 0)
