"""Answers to clients that read: the API of repositories, their trees and refs, and the resolver of files."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode

from .answers import Answer, Refused, Request, json_answer, unescaped
from .repositories import Blob, Commit, Repository

if TYPE_CHECKING:
    from .server import HubServer

__all__ = ["answer_api", "commit_at", "resolve", "resolve_cached", "send_blob", "send_raw", "take_revision"]

_PAGE = 1000  # entries of a listing
_EXPANDED_PAGE = 50  # … with the last commit of each
_MOST_PATHS = 1000  # of one request for the infos of paths


def take_revision(segments: list[str]) -> tuple[str, list[str]]:
    """Return a revision and what follows it in a path; ``refs/pr/1`` is also taken without escapes."""
    if segments[:1] == ["refs"] and segments[1:2] in (["pr"], ["convert"]):
        return "/".join(segments[:3]), segments[3:]
    return unescaped(segments[:1]), segments[1:]


# ------------------------------------------------------------------------------------------------------------- the API


def answer_api(hub: HubServer, repository: Repository, request: Request, action: list[str]) -> Answer | None:
    """Answer a request to ``/api/{datasets,models,spaces}/OWNER/NAME/…``; None: it does not read.

    Args:
        hub: The hub.
        repository: The repository, which the client may see.
        request: The request.
        action: What follows the repository's name.
    """
    match request.method, action:
        case "GET", []:
            return _info(hub, repository, request, "main" if repository.refs else "")
        case "GET", ["revision", *rest]:
            return _info(hub, repository, request, take_revision(rest)[0])
        case "GET", ["tree", *rest]:
            return _tree(hub, repository, request, *take_revision(rest))
        case "POST", ["paths-info", *rest]:
            return _paths_info(repository, request, take_revision(rest)[0])
        case "GET", ["refs"]:
            return _refs(repository, request)
        case "GET", ["commits", *rest]:
            return _commits(repository, take_revision(rest)[0])
        case "GET", ["auth-check"]:
            hub.check_files(repository, request)
            return json_answer({})
        case "GET", ["xet-read-token", *rest]:
            hub.check_files(repository, request)
            commit_at(repository, take_revision(rest)[0])
            return hub.xet_token(repository, "read")
    return None


def commit_at(repository: Repository, revision: str) -> Commit:
    try:
        return repository.find(revision)
    except KeyError:
        raise Refused.no_revision(revision) from None


def _info(hub: HubServer, repository: Repository, request: Request, revision: str) -> Answer:
    commit = commit_at(repository, revision) if revision else None
    siblings: list[dict[str, Any]] = []
    for path, blob in sorted(commit.tree.files.items()) if commit else ():
        sibling: dict[str, Any] = {"rfilename": path}
        if request.flag("blobs"):
            sibling |= {"blobId": blob.oid, "size": blob.size}
            if blob.is_lfs:
                sibling["lfs"] = {"sha256": blob.sha256, "size": blob.size, "pointerSize": len(blob.pointer)}
        siblings.append(sibling)
    last = commit.date if commit else "2026-01-01T00:00:00.000Z"
    info: dict[str, Any] = {
        "_id": hashlib.sha1(repository.name.encode()).hexdigest()[:24],
        "id": repository.name,
        "author": repository.owner,
        "sha": commit.sha if commit else None,
        "lastModified": last,
        "createdAt": last,
        "private": repository.is_private,
        "gated": repository.gated or False,
        "disabled": repository.is_disabled,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "siblings": siblings,
        "usedStorage": sum(blob.size for blob in commit.tree.files.values()) if commit else 0,
    }
    if repository.kind == "models":
        info |= {"modelId": repository.name}
    asked = request.arguments.get("expand", []) + request.arguments.get("expand[]", [])
    if asked:
        info = {name: value for name, value in info.items() if name in {"_id", "id", *asked}}
    return json_answer(info)


def _tree(hub: HubServer, repository: Repository, request: Request, revision: str, rest: list[str]) -> Answer:
    """Answer a page of a listing; its ``Link`` has the next one, which begins after the last path of this one."""
    commit = commit_at(repository, revision)
    folder = unescaped(rest).strip("/")
    is_expanded = request.flag("expand")
    most = min(int(request.argument("limit", str(_PAGE))), _EXPANDED_PAGE if is_expanded else _PAGE)
    cursor = request.argument("cursor")
    after = json.loads(base64.b64decode(cursor))["file_name"] if cursor else None
    page = commit.tree.page(folder, is_recursive=request.flag("recursive"), after=after, most=most)
    if page is None:
        raise Refused.no_entry(f"{folder} on {revision}")
    entries, has_more = page
    listed = [entry.as_json(repository.last_change(commit, entry.path) if is_expanded else None) for entry in entries]
    headers = {"X-Total-Count": str(len(commit.tree.files))}
    if has_more:
        following = base64.b64encode(json.dumps({"file_name": entries[-1].path}).encode()).decode()
        query = {name: values[0] for name, values in request.arguments.items()} | {"limit": most, "cursor": following}
        headers["Link"] = f'<{hub.url}{request.path}?{urlencode(query)}>; rel="next"'
    return json_answer(listed, headers=headers)


def _paths_info(repository: Repository, request: Request, revision: str) -> Answer:
    commit = commit_at(repository, revision)
    if "json" in request.headers.get("content-type", ""):
        document = json.loads(request.body)
        paths, is_expanded = document["paths"], bool(document.get("expand"))
    else:
        form = parse_qs(request.body.decode(), keep_blank_values=True)
        paths, is_expanded = form.get("paths", []), form.get("expand", ["false"])[0].lower() == "true"
    if len(paths) > _MOST_PATHS:
        raise Refused(413, "", f"paths: at most {_MOST_PATHS} paths, got {len(paths)}")
    entries = [entry for path in paths if (entry := commit.tree.entry(path.strip("/"))) is not None]
    return json_answer(
        [entry.as_json(repository.last_change(commit, entry.path) if is_expanded else None) for entry in entries]
    )


def _refs(repository: Repository, request: Request) -> Answer:
    groups = {"branches": "refs/heads/", "tags": "refs/tags/", "converts": "refs/convert/"}
    if request.flag("include_prs"):
        groups["pullRequests"] = "refs/pr/"
    return json_answer(
        {
            group: [
                {"name": ref.removeprefix(prefix), "ref": ref, "targetCommit": commit}
                for ref, commit in sorted(repository.refs.items())
                if ref.startswith(prefix)
            ]
            for group, prefix in groups.items()
        }
    )


def _commits(repository: Repository, revision: str) -> Answer:
    commit_at(repository, revision)
    return json_answer(
        [
            {
                "id": commit.sha,
                "title": commit.title,
                "message": commit.message,
                "date": commit.date,
                "authors": [{"user": repository.owner}],
            }
            for commit in repository.history(revision)
        ]
    )


# -------------------------------------------------------------------------------------------------------- the resolver


def resolve(hub: HubServer, repository: Repository, request: Request, revision: str, rest: list[str]) -> Answer:
    """Answer ``…/resolve/REVISION/PATH``: the file, or where it is.

    Files of LFS lead to a signed address of another server; regular ones to an address of this one by the commit, or
    they are sent at once, as ``hub.sends_small_files`` says.
    """
    hub.check_files(repository, request)
    commit = commit_at(repository, revision)
    path = unescaped(rest)
    blob = commit.tree.files.get(path)
    if blob is None:
        raise Refused.no_entry()
    headers = {
        "X-Repo-Commit": commit.sha,
        "X-Linked-Size": str(blob.size),
        "X-Linked-Etag": f'"{blob.etag}"',
        "Accept-Ranges": "bytes",
    }
    if not blob.is_lfs:
        if hub.sends_small_files:
            return send_blob(blob, request, {"X-Repo-Commit": commit.sha})
        cached = f"/api/resolve-cache/{repository.kind}/{repository.name}/{commit.sha}/{quote(path, safe='')}"
        headers["Location"] = f"{cached}?{quote(request.path, safe='')}=&etag={quote(headers['X-Linked-Etag'])}"
        return Answer(307, b"", headers)
    if blob.xet_hash:
        headers["X-Xet-Hash"] = blob.xet_hash
        token = f"{hub.url}/api/{repository.kind}/{repository.name}/xet-read-token/{commit.sha}"
        store = f"{hub.xet_url}/v1/reconstructions/{blob.xet_hash}"
        headers["Link"] = f'<{token}>; rel="xet-auth", <{store}>; rel="xet-reconstruction-info"'
    headers["Location"] = hub.addresses.sign(hub.cdn_url, repository, blob, path.rpartition("/")[2])
    return Answer(hub.redirect_status, f"Found. Redirecting to {headers['Location']}".encode(), headers)


def resolve_cached(hub: HubServer, repository: Repository, request: Request, commit: str, rest: list[str]) -> Answer:
    """Answer the address to which the resolver leads for regular files."""
    hub.check_files(repository, request)
    blob = commit_at(repository, commit).tree.files.get(unescaped(rest))
    if blob is None or blob.is_lfs:
        raise Refused.no_entry()
    return send_blob(blob, request, {"X-Repo-Commit": commit})


def send_raw(hub: HubServer, repository: Repository, request: Request, revision: str, rest: list[str]) -> Answer:
    """Answer ``…/raw/REVISION/PATH``: what git has, which is the pointer for files of LFS."""
    hub.check_files(repository, request)
    commit = commit_at(repository, revision)
    blob = commit.tree.files.get(unescaped(rest))
    if blob is None:
        raise Refused.no_entry()
    data = blob.pointer if blob.is_lfs else blob.read()
    return Answer(200, data, {"X-Repo-Commit": commit.sha, "ETag": f'"{blob.oid}"'})


def send_blob(blob: Blob, request: Request, headers: dict[str, str]) -> Answer:
    """Answer with a blob or the range of it that is requested."""
    headers = {
        "ETag": f'"{blob.etag}"',
        "Accept-Ranges": "bytes",
        "Content-Type": "application/octet-stream",
        **headers,
    }
    if request.fault == "pointer":
        return Answer(200, blob.pointer, headers)
    if request.range is None or request.fault == "whole file":
        return Answer(200, b"", headers, blob, 0, blob.size)
    start, last = request.range
    if start < 0:  # the last bytes
        start, last = max(0, blob.size + start), blob.size - 1
    if start >= blob.size or last < start:
        return Answer(416, b"", {"Content-Range": f"bytes */{blob.size}"})
    last = min(last, blob.size - 1)
    if request.fault == "wrong range":
        start, last = (start + 1, last) if last > start else (max(0, start - 1), last)
    headers["Content-Range"] = f"bytes {start}-{last}/{blob.size}"
    return Answer(206, b"", headers, blob, start, last - start + 1)
