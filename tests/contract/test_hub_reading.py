"""The hub of the tests answers the real client, when it reads, as the hub does."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx2 import TransportError
from huggingface_hub import HfApi, HfFileSystem, constants, get_hf_file_metadata, hf_hub_url
from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils._http import get_session, parse_ratelimit_headers

from tests.hub_server import PLANS, Fault, FaultPlan, HubServer, hub_server
from tests.source_tree import ROOT

TAR = bytes(range(256)) * 400
NAME = "cats/pictures"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # the client waits before it tries again
    with hub_server() as hub:
        yield hub


def client(hub: HubServer, token: str | bool = False) -> HfApi:
    return HfApi(endpoint=hub.url, token=token)


def test_infos_name_the_commit_and_the_files(hub: HubServer) -> None:
    repository = hub.create("datasets", NAME, private=True, gated="auto")
    first = repository.commit({"README.md": b"# Cats"})
    repository.tag("v1")
    second = repository.commit({"train/0000.tar": TAR})
    api = client(hub, hub.add_user("cats"))
    info = api.dataset_info(NAME, files_metadata=True)
    assert (info.id, info.sha, info.private, info.gated) == (NAME, second, True, "auto")
    assert [(file.rfilename, file.size, file.lfs is not None) for file in info.siblings or ()] == [
        ("README.md", 6, False),
        ("train/0000.tar", len(TAR), True),
    ]
    for revision in ("v1", first, first[:8]):
        assert api.repo_info(NAME, repo_type="dataset", revision=revision).sha == first


@pytest.mark.parametrize(("kind", "repo_type"), [("datasets", "dataset"), ("models", "model"), ("spaces", "space")])
def test_each_kind_of_repository_is_read(kind: str, repo_type: str, hub: HubServer, tmp_path: Path) -> None:
    hub.create(kind, NAME).commit({"a folder/ü #1%@.txt": b"small", "large.tar": TAR})
    api = client(hub)
    for path, data in {"a folder/ü #1%@.txt": b"small", "large.tar": TAR}.items():
        local = api.hf_hub_download(NAME, path, repo_type=repo_type, cache_dir=tmp_path)
        assert Path(local).read_bytes() == data


def test_listings_come_in_pages_of_a_thousand(hub: HubServer) -> None:
    repository = hub.create("datasets", NAME)
    commit = repository.commit({f"train/{number % 2}/{number:05}.txt": b"" for number in range(2500)})
    api = client(hub)
    entries = list(api.list_repo_tree(NAME, repo_type="dataset", recursive=True, revision=commit))
    assert [entry.path for entry in entries] == sorted({entry.path for entry in entries})
    assert len(entries) == 2503
    assert hub.count(kind="api", path="*/tree/*") == 3
    assert [entry.path for entry in api.list_repo_tree(NAME, "train", repo_type="dataset")] == ["train/0", "train/1"]


def test_entries_have_what_the_hub_lists(hub: HubServer) -> None:
    repository = hub.create("datasets", NAME, xet=True)
    first = repository.commit({"README.md": b"# Cats", "train/0000.tar": TAR}, message="Begin")
    repository.commit({"README.md": b"# More cats"})
    asked = ["README.md", "train", "train/0000.tar", "missing"]
    readme, folder, tar = client(hub).get_paths_info(NAME, asked, repo_type="dataset", expand=True)
    assert (folder.path, len(vars(folder)["tree_id"])) == ("train", 40)
    assert vars(readme)["lfs"] is None
    assert vars(readme)["blob_id"] == "8c7dc40eb44149942534d5d53ab46fda24326672"  # git hash-object
    assert vars(tar)["lfs"].sha256 != vars(tar)["xet_hash"]
    assert (vars(tar)["size"], vars(tar)["lfs"].size, vars(tar)["lfs"].pointer_size) == (len(TAR), len(TAR), 131)
    assert (vars(tar)["last_commit"].oid, vars(tar)["last_commit"].title) == (first, "Begin")


def test_revisions_of_all_forms_are_found(hub: HubServer) -> None:
    repository = hub.create("datasets", NAME)
    commits = {
        revision: repository.commit({"a.txt": revision.encode()}, revision)
        for revision in ("main", "with/slash", "refs/pr/1", "refs/convert/parquet")
    }
    repository.tag("v1.0", "main")
    fs = HfFileSystem(endpoint=hub.url, token=False, use_listings_cache=False)
    for revision, commit in commits.items():
        assert client(hub).dataset_info(NAME, revision=revision).sha == commit
        escaped = revision if revision.startswith("refs/") else revision.replace("/", "%2F")
        assert fs.cat_file(f"datasets/{NAME}@{escaped}/a.txt") == revision.encode()
    refs = client(hub).list_repo_refs(NAME, repo_type="dataset", include_pull_requests=True)
    assert [ref.name for ref in refs.branches] == ["main", "with/slash"]
    assert [(ref.name, ref.target_commit) for ref in refs.tags] == [("v1.0", commits["main"])]
    assert [ref.ref for ref in (refs.pull_requests or []) + refs.converts] == ["refs/pr/1", "refs/convert/parquet"]


@pytest.mark.parametrize("form", ["expires", "amz"])
def test_large_files_lead_to_an_address_that_expires(form: str, hub: HubServer) -> None:
    hub.addresses.form = form
    commit = hub.create("datasets", NAME, xet=True).commit({"train/0000.tar": TAR})
    found = get_hf_file_metadata(hf_hub_url(NAME, "train/0000.tar", repo_type="dataset", endpoint=hub.url), token=False)
    assert (found.commit_hash, found.size) == (commit, len(TAR))
    assert found.location.startswith(hub.cdn_url)
    assert found.xet_file_data is not None
    read = get_session().get(found.location, headers={"Range": "bytes=256-259"})
    assert (read.status_code, read.content, read.headers["Content-Range"]) == (
        206,
        TAR[:4],
        f"bytes 256-259/{len(TAR)}",
    )
    hub.addresses.moved_s += 3601
    assert get_session().get(found.location).status_code == 403
    assert get_session().get(found.location.replace("Signature=", "Signature=0")).status_code == 403
    assert hub.count(kind="cdn") == 3


def test_small_files_are_behind_a_second_address_or_sent_at_once(hub: HubServer) -> None:
    hub.create("datasets", NAME).commit({"README.md": b"# Cats"})
    fs = HfFileSystem(endpoint=hub.url, token=False, use_listings_cache=False)
    for sends_small_files, requests in ((False, 2), (True, 1)):
        hub.sends_small_files = sends_small_files
        hub.log.clear()
        assert fs.cat_file(f"datasets/{NAME}/README.md", start=2, end=6) == b"Cats"
        assert hub.count(kind="resolver") == requests


def test_folders_are_served_without_a_copy(hub: HubServer, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "train").mkdir(parents=True)
    with (folder / "train/0000.tar").open("wb") as file:
        file.write(TAR)
        file.truncate(1 << 34)  # 16 GB, almost all of them a hole
    hub.create("datasets", NAME).commit(folder, hashed=False)
    fs = HfFileSystem(endpoint=hub.url, token=False, use_listings_cache=False)
    path = f"datasets/{NAME}/train/0000.tar"
    assert fs.size(path) == 1 << 34
    assert fs.cat_file(path, start=256, end=512) == TAR[:256]
    assert fs.cat_file(path, start=(1 << 33), end=(1 << 33) + (4 << 20)) == bytes(4 << 20)  # by the kernel


def test_a_snapshot_is_downloaded(hub: HubServer, tmp_path: Path) -> None:
    files = {"README.md": b"# Cats", "train/0000.tar": TAR, "train/0001.tar": TAR[1:]}
    commit = hub.create("datasets", NAME).commit(files)
    folder = client(hub).snapshot_download(NAME, repo_type="dataset", cache_dir=tmp_path)
    assert Path(folder).name == commit
    assert {path: (Path(folder) / path).read_bytes() for path in files} == files


# -------------------------------------------------------------------------------------------------------- refusals


def test_private_repositories_look_missing(hub: HubServer) -> None:
    hub.create("datasets", NAME, private=True).commit({"README.md": b"# Cats"})
    for name in (NAME, "cats/missing"):
        for token, status in ((False, 401), (hub.add_user("dogs"), 404)):
            with pytest.raises(RepositoryNotFoundError) as refused:
                client(hub, token).dataset_info(name)
            assert refused.value.response.status_code == status
    assert client(hub, hub.add_user("cats")).dataset_info(NAME).private
    assert client(hub, hub.add_user("birds", organizations=("cats",))).dataset_info(NAME).private


def test_files_of_gated_repositories_are_for_who_was_granted_access(hub: HubServer, tmp_path: Path) -> None:
    repository = hub.create("datasets", NAME, gated=True)
    repository.commit({"README.md": b"# Cats"})
    token = hub.add_user("dogs")
    for other_token, status in ((False, 401), (token, 403)):
        assert client(hub, other_token).dataset_info(NAME).gated == "manual"
        with pytest.raises(GatedRepoError) as refused:
            client(hub, other_token).hf_hub_download(NAME, "README.md", repo_type="dataset", cache_dir=tmp_path)
        assert refused.value.response.status_code == status
    repository.grant("dogs")
    assert client(hub, token).hf_hub_download(NAME, "README.md", repo_type="dataset", cache_dir=tmp_path)


def test_what_is_gone_has_the_errors_of_the_client(hub: HubServer, tmp_path: Path) -> None:
    repository = hub.create("datasets", NAME)
    gone = repository.commit({"README.md": b"# Cats"})
    with pytest.raises(EntryNotFoundError):
        client(hub).hf_hub_download(NAME, "missing.txt", repo_type="dataset", cache_dir=tmp_path)
    with pytest.raises(EntryNotFoundError):
        list(client(hub).list_repo_tree(NAME, "missing", repo_type="dataset"))
    repository.force_push({"README.md": b"# Dogs"})
    with pytest.raises(RevisionNotFoundError):
        client(hub).dataset_info(NAME, revision=gone)
    with pytest.raises(RevisionNotFoundError):
        client(hub).hf_hub_download(NAME, "README.md", repo_type="dataset", revision=gone, cache_dir=tmp_path)
    repository.remove_commit("main")
    with pytest.raises(RevisionNotFoundError):
        client(hub).dataset_info(NAME, revision="main")
    repository.is_disabled = True
    with pytest.raises(DisabledRepoError):
        client(hub).dataset_info(NAME)


def test_a_renamed_repository_is_found_by_its_old_name(hub: HubServer, tmp_path: Path) -> None:
    repository = hub.create("datasets", NAME)
    repository.commit({"README.md": b"# Cats", "train/0000.tar": TAR})
    repository.rename("cats/photographs")
    assert client(hub).dataset_info(NAME).id == "cats/photographs"
    path = client(hub).hf_hub_download(NAME, "train/0000.tar", repo_type="dataset", cache_dir=tmp_path)
    assert Path(path).read_bytes() == TAR


def test_tokens_are_known_or_refused(hub: HubServer) -> None:
    hub.create("datasets", NAME).commit({"README.md": b"# Cats"})
    assert client(hub, hub.add_user("cats", plan="pro")).whoami()["isPro"]
    with pytest.raises(HfHubHTTPError, match="Invalid user token"):
        client(hub, "hf_wrong").whoami()
    with pytest.raises(HfHubHTTPError) as refused:
        client(hub, "hf_wrong").dataset_info(NAME)
    assert not isinstance(refused.value, RepositoryNotFoundError)
    assert refused.value.response.status_code == 401


# ---------------------------------------------------------------------------------------------- limits and faults


def test_requests_are_counted_apart_by_kind_and_user(hub: HubServer) -> None:
    hub.create("datasets", NAME).commit({"README.md": b"# Cats"})
    url = hf_hub_url(NAME, "README.md", repo_type="dataset", endpoint=hub.url)
    token = hub.add_user("cats", plan="enterprise")
    for kind, path, headers, plan in (
        ("api", f"{hub.url}/api/datasets/{NAME}", {}, "anonymous"),
        ("resolvers", url, {}, "anonymous"),
        ("api", f"{hub.url}/api/datasets/{NAME}", {"Authorization": f"Bearer {token}"}, "enterprise"),
    ):
        answer = get_session().head(path, headers=headers, follow_redirects=False)
        found = parse_ratelimit_headers(answer.headers)
        limit = getattr(PLANS[plan], kind)
        assert found is not None
        assert (found.resource_type, found.limit, found.remaining) == (kind, limit, limit - 1)
        assert (found.window_seconds, found.reset_in_seconds <= 300) == (300, True)


def test_requests_over_the_limit_are_refused(hub: HubServer) -> None:
    hub.limits.api = 2
    hub.create("datasets", NAME).commit({"README.md": b"# Cats"})
    for _ in range(2):
        client(hub).dataset_info(NAME)
    with pytest.raises(HfHubHTTPError, match="you have reached your 'api' rate limit") as refused:
        client(hub).dataset_info(NAME)
    assert int(refused.value.response.headers["Retry-After"]) > 0
    hub.limits.window_s = 0.001  # the next window
    client(hub).dataset_info(NAME)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("500", (500, False)),
        ("503", (503, False)),
        ("429", (429, False)),
        ("html", (502, False)),
        ("html 200", (200, False)),
        ("reset", "ReadError"),
        ("reset in body", "ReadError"),
        ("short body", "RemoteProtocolError"),
        ("stall", "ReadTimeout"),
        ("whole file", (200, False)),
        ("wrong range", (206, False)),
        ("pointer", (200, False)),
        ("expired", (403, False)),
    ],
)
def test_faults_are_as_planned(kind: str, expected: object, hub: HubServer) -> None:
    hub.create("datasets", NAME).commit({"train/0000.tar": TAR})
    hub.faults = FaultPlan(faults=[Fault(kind=kind, of="cdn", requests=[0])])
    url = hf_hub_url(NAME, "train/0000.tar", repo_type="dataset", endpoint=hub.url)
    answers: list[object] = []
    for _ in range(2):
        try:
            answer = get_session().get(url, headers={"Range": "bytes=0-9999"}, timeout=0.2)
            answers.append((answer.status_code, answer.content == TAR[:10_000]))
        except TransportError as error:
            answers.append(type(error).__name__)
    assert answers == [expected, (206, True)]
    assert [logged.fault for logged in hub.log if logged.kind == "cdn"] == [kind, ""]


def test_the_log_has_no_secrets(hub: HubServer) -> None:
    hub.create("datasets", NAME).commit({"train/0000.tar": TAR})
    token = hub.add_user("cats")
    url = hf_hub_url(NAME, "train/0000.tar", repo_type="dataset", endpoint=hub.url)
    get_session().get(url, headers={"Authorization": f"Bearer {token}", "Range": "bytes=0-9"})
    resolved, sent = hub.log[-2:]
    assert (resolved.kind, resolved.status, resolved.has_token) == ("resolver", 302, True)
    limit = time.monotonic() + 20
    while not sent.sent_bytes and time.monotonic() < limit:
        time.sleep(0.01)  # the server counts after the client has received
    assert (sent.kind, sent.status, sent.sent_bytes, sent.has_token, sent.range) == ("cdn", 206, 10, False, (0, 9))
    assert not any(secret in str(hub.log) for secret in (token, "Signature", "Expires"))


def test_a_program_serves_a_folder_to_benchmarks(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/0000.tar").write_bytes(TAR)
    command = [sys.executable, "-m", "tests.hub_server", "--repository", f"datasets/{NAME}={tmp_path / 'data'}"]
    with subprocess.Popen(
        [*command, "--user", "dogs=team"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        url, token = program.stdout.readline().strip(), program.stdout.readline().strip()
        plan = json.dumps({"faults": [{"kind": "500", "of": "cdn", "requests": [0]}]})
        print(f"plan {plan}", file=program.stdin, flush=True)
        assert program.stdout.readline() == "planned\n"
        address = hf_hub_url(NAME, "0000.tar", repo_type="dataset", endpoint=url)
        statuses = [get_session().get(address, headers={"Authorization": f"Bearer {token}"}).status_code for _ in "12"]
        print(f"log {tmp_path / 'log'}\ncounts", file=program.stdin, flush=True)
        assert program.stdout.readline() == "4\n"
        requests = {"resolver GET 302": 2, "cdn GET 500": 1, "cdn GET 200": 1}
        assert json.loads(program.stdout.readline())["requests"] == requests
        program.stdin.close()
    assert statuses == [500, 200]
    assert [json.loads(line)["fault"] for line in (tmp_path / "log").read_text().splitlines()] == ["", "500", "", ""]
