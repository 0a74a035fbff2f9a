"""Answers to clients that write: repositories, branches, commits, and uploads of large files by LFS."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from .answers import Answer, Refused, Request, json_answer
from .reading import commit_at, take_revision
from .repositories import Blob, Repository, is_large

if TYPE_CHECKING:
    from .server import HubServer, User

__all__ = ["answer_lfs", "answer_repositories", "answer_upload", "answer_writes"]

_KINDS = {"dataset": "datasets", "model": "models", "space": "spaces"}
_GIT_ATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n*.tar filter=lfs diff=lfs merge=lfs -text\n"


def _writer(hub: HubServer, owner: str, request: Request) -> User:
    """Return who asks, if they may write to repositories of an owner."""
    user = hub.user(request)
    if user is None:
        raise Refused(401, "", "Invalid username or password.")
    if not user.can_write:
        raise Refused(403, "", "Forbidden: you must use a write token to upload to a repository.")
    if owner not in (user.name, *user.organizations):
        raise Refused(403, "", f'You don\'t have the rights to write under the namespace "{owner}"')
    return user


# ------------------------------------------------------------------------------------------------------- repositories


def answer_repositories(hub: HubServer, request: Request, action: str) -> Answer:
    """Answer ``/api/repos/create``, ``/api/repos/move`` and ``/api/repos/delete``."""
    asked = json.loads(request.body)
    kind = _KINDS[asked.get("type") or "model"]
    if action == "move":
        repository = hub.find(kind, *asked["fromRepo"].split("/", 1), request=request)
        _writer(hub, repository.owner, request)
        _writer(hub, asked["toRepo"].partition("/")[0], request)
        repository.rename(asked["toRepo"])
        return json_answer({})
    user = hub.user(request)
    owner = asked.get("organization") or (user.name if user else "")
    name = f"{owner}/{asked['name']}"
    if action == "delete":
        repository = hub.find(kind, owner, asked["name"], request=request)
        _writer(hub, owner, request)
        del hub.repositories[kind, repository.name]
        return json_answer({})
    _writer(hub, owner, request)
    if (kind, name) in hub.repositories:
        url = hub.page_url(hub.repositories[kind, name])
        raise Refused(409, "", f"You already created this {kind.removesuffix('s')} repo: {name}", {"url": url})
    is_private = asked.get("visibility") == "private" or bool(asked.get("private"))
    repository = hub.create(kind, name, private=is_private, xet=hub.xet is not None)
    repository.commit({".gitattributes": _GIT_ATTRIBUTES}, message="initial commit")
    return json_answer(
        {"url": hub.page_url(repository), "name": name, "id": hashlib.sha1(name.encode()).hexdigest()[:24]}
    )


def answer_writes(hub: HubServer, repository: Repository, request: Request, action: list[str]) -> Answer:
    """Answer a request that writes to ``/api/{datasets,models,spaces}/OWNER/NAME/…``, as :func:`.answer_api`."""
    match request.method, action:
        case "POST", ["preupload", *rest]:
            return _preupload(hub, repository, request, take_revision(rest)[0])
        case "POST", ["commit", *rest]:
            return _commit(hub, repository, request, take_revision(rest)[0])
        case "GET", ["xet-write-token", *_]:
            if not request.flag("create_pr"):
                _writer(hub, repository.owner, request)
            return hub.xet_token(repository, "write")
    _writer(hub, repository.owner, request)
    match request.method, action:
        case "PUT", ["settings"]:
            asked = json.loads(request.body)
            repository.gated = asked.get("gated", repository.gated) or ""
            if "visibility" in asked:
                repository.is_private = asked["visibility"] == "private"
        case "POST", ["branch", branch]:
            ref = f"refs/heads/{unquote(branch)}"
            start = json.loads(request.body or b"{}").get("startingPoint", "main")
            _set_ref(repository, ref, commit_at(repository, start).sha)
        case "POST", ["tag", *rest]:
            asked = json.loads(request.body)
            _set_ref(repository, f"refs/tags/{asked['tag']}", commit_at(repository, take_revision(rest)[0]).sha)
        case "DELETE", [("branch" | "tag") as kind, name]:
            ref = f"refs/{'heads' if kind == 'branch' else 'tags'}/{unquote(name)}"
            if repository.refs.pop(ref, None) is None:
                raise Refused.no_revision(unquote(name))
        case _:
            raise Refused(404, "", f"Cannot {request.method} {request.path}")
    return json_answer({})


def _set_ref(repository: Repository, ref: str, commit: str) -> None:
    if ref in repository.refs:
        raise Refused(409, "", f"Reference already exists: {ref}")
    repository.refs[ref] = commit


# ------------------------------------------------------------------------------------------------------------- commits


def _preupload(hub: HubServer, repository: Repository, request: Request, revision: str) -> Answer:
    """Decide of each file whether the client puts it into the commit or uploads it before."""
    _check_commit(hub, repository, request)
    commit = commit_at(repository, revision) if repository.refs else None
    files = []
    for asked in json.loads(request.body)["files"]:
        mode = "lfs" if is_large(asked["path"], asked["size"]) else "regular"
        file = {"path": asked["path"], "uploadMode": mode, "shouldIgnore": False}
        there = commit.tree.files.get(asked["path"]) if commit else None
        if there is not None:
            file["oid"] = there.etag
        files.append(file)
    return json_answer({"files": files, "commitOid": commit.sha if commit else None})


def _check_commit(hub: HubServer, repository: Repository, request: Request) -> None:
    """Refuse those who may not write, but for pull requests, which anyone with a token may open."""
    user = hub.user(request)
    if not (request.flag("create_pr") and user is not None):
        _writer(hub, repository.owner, request)


def _commit(hub: HubServer, repository: Repository, request: Request, revision: str) -> Answer:
    """Add a commit, as lines of JSON describe it: a header, then files, files of LFS, and what is deleted."""
    _check_commit(hub, repository, request)
    with repository.lock:
        last = commit_at(repository, revision) if repository.refs else None
        header: dict[str, Any] = {}
        blobs: dict[str, Blob | None] = {}
        uploaded: dict[str, dict[str, Any]] = {}  # path → file of LFS
        for line in request.body.splitlines():
            item = json.loads(line)
            key, value = item["key"], item["value"]
            match key:
                case "header":
                    header = value
                case "file":
                    data = base64.b64decode(value["content"]) if value.get("encoding") == "base64" else value["content"]
                    content = data if isinstance(data, bytes) else data.encode()
                    blobs[value["path"]] = repository.blob(value["path"], content, is_lfs=lambda path, size: False)
                case "lfsFile":
                    uploaded[value["path"]] = value
                case "deletedFile" | "deletedFolder":
                    folder = value["path"].rstrip("/") + "/"
                    inside = [
                        path
                        for path in (last.tree.files if last else ())
                        if path == value["path"] or (key == "deletedFolder" and path.startswith(folder))
                    ]
                    if not inside:
                        raise Refused(404, "EntryNotFound", f"A file with this name doesn't exist: {value['path']}")
                    blobs |= dict.fromkeys(inside)
        parent = header.get("parentCommit")
        if parent and (last is None or not last.sha.startswith(parent)):
            raise Refused(412, "", "A commit has happened since. Please refresh and try again.")
        blobs |= _large_blobs(hub, repository, uploaded)
        message = header.get("summary", "") + (f"\n\n{header['description']}" if header.get("description") else "")
        branch = revision
        if request.flag("create_pr"):
            branch = f"refs/pr/{1 + sum(ref.startswith('refs/pr/') for ref in repository.refs)}"
            if last is not None:
                repository.refs[branch] = last.sha
        elif last is not None and not ({f"refs/heads/{revision}", revision} & set(repository.refs)):
            raise Refused(400, "", f"{revision} is no branch")
        sha = repository.add(blobs, branch, message=message)
    page = (
        f"{hub.url}/{repository.name}"
        if repository.kind == "models"
        else f"{hub.url}/{repository.kind}/{repository.name}"
    )
    answer = {"success": True, "commitOid": sha, "commitUrl": f"{page}/commit/{sha}", "hookOutput": ""}
    if request.flag("create_pr"):
        answer["pullRequestUrl"] = f"{page}/discussions/{branch.rpartition('/')[2]}"
    return json_answer(answer)


def _large_blobs(hub: HubServer, repository: Repository, uploaded: dict[str, dict[str, Any]]) -> dict[str, Blob | None]:
    """Return the files that were uploaded before a commit by LFS or Xet."""
    sizes = {file["oid"]: file["size"] for file in uploaded.values() if file["oid"] not in hub.blobs and "size" in file}
    if sizes and hub.xet is not None:
        for sha256, (stored, xet_hash) in hub.xet.get(sizes).items():
            hub.blobs[sha256] = Blob(stored, sizes[sha256], is_lfs=True, sha256=sha256, xet_hash=xet_hash)
    blobs: dict[str, Blob | None] = {}
    for path, file in uploaded.items():
        blob = hub.blobs.get(file["oid"])
        if blob is None:
            raise Refused(400, "", f"LFS pointer pointed to a file that does not exist: {path} ({file['oid']})")
        blobs[path] = blob
    return blobs


# --------------------------------------------------------------------------------------------------- uploads by LFS


def answer_lfs(hub: HubServer, repository: Repository, request: Request, action: str) -> Answer:
    """Answer ``OWNER/NAME.git/info/lfs/objects/batch``, ``…/complete`` and ``…/verify``.

    Files of more than ``hub.part_bytes`` are uploaded in parts: the client puts each to its own address, and posts the
    ETags to ``complete``.
    """
    asked = json.loads(request.body)
    if action == "verify":
        blob = hub.blobs.get(asked["oid"])
        if blob is None or blob.size != asked["size"]:
            raise Refused(404, "", f"No such object, or of another size: {asked['oid']}")
        return json_answer({})
    if action == "complete":
        parts = [hub.parts.pop(f"{asked['oid']}/{part['partNumber']}", b"") for part in asked["parts"]]
        _keep(hub, asked["oid"], b"".join(parts))
        return json_answer({})
    _writer(hub, repository.owner, request)
    base = f"{hub.url}{request.path.removesuffix('batch')}"
    objects, is_in_parts = [], False
    for wanted in asked["objects"]:
        answer: dict[str, Any] = {"oid": wanted["oid"], "size": wanted["size"], "authenticated": True}
        if wanted["oid"] not in hub.blobs:
            upload: dict[str, Any] = {"href": hub.addresses.sign_upload(hub.cdn_url, wanted["oid"])}
            if wanted["size"] > hub.part_bytes and "multipart" in asked.get("transfers", ()):
                is_in_parts = True
                numbers = range(1, -(-wanted["size"] // hub.part_bytes) + 1)
                header = {str(n): hub.addresses.sign_upload(hub.cdn_url, f"{wanted['oid']}/{n}") for n in numbers}
                upload = {"href": f"{base}complete", "header": {"chunk_size": str(hub.part_bytes), **header}}
            answer["actions"] = {"upload": upload, "verify": {"href": f"{base}verify"}}
        objects.append(answer)
    return json_answer({"transfer": "multipart" if is_in_parts else "basic", "objects": objects, "hash_algo": "sha256"})


def answer_upload(hub: HubServer, request: Request) -> Answer:
    """Store the bytes of a file, or of a part of one, that come to a signed address."""
    name = request.path.removeprefix("/uploads/")
    if "/" in name:
        hub.parts[name] = request.body
    else:
        _keep(hub, name, request.body)
    return Answer(200, b"", {"ETag": f'"{hashlib.md5(request.body).hexdigest()}"'})


def _keep(hub: HubServer, sha256: str, data: bytes) -> None:
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Refused(400, "", f"The bytes of {sha256} have another digest")
    hub.blobs[sha256] = Blob(data, len(data), is_lfs=True, sha256=sha256)
