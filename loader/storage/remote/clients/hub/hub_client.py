"""A repository of the hub at a commit, as a client of objects."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any, NoReturn
from urllib.parse import quote

import msgspec

from ...failures import Remedy, RequestFailure
from ...object_url import MAIN_BRANCH, ObjectUrl, is_commit
from ...options import StorageOptions
from ..connection import ClientObject, Received
from ..http_client import AFTER, MAX_WHOLE_BYTES, REDIRECTS, HttpClient
from .addresses import Address, Addresses
from .commit_upload import named_errors, upload_to
from .hub_requests import HubRequests

_DENIED = ("denied", "expired", "missing")  # what stores of files answer to an address that has expired
_SHARED_S = 20.0  # within which the processes of a node begin
_HISTORY_PAGES = 20  # of 50 commits and more
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_MAX_POINTER_BYTES = 1024


class HubClient:
    """Files of a repository at one commit; threads share it.

    Args:
        url: A URL of the repository.
        options: Options with the commit; without it, :meth:`commit` alone may be called.
    """

    can_list = True

    def __init__(self, url: ObjectUrl, options: StorageOptions) -> None:
        self._web = HttpClient(url, options)
        self._requests = HubRequests(self._web, options)
        self._repository = url.container
        kind = "" if url.container.startswith(("datasets/", "spaces/")) else "models/"
        self._api = f"api/{kind}{url.container}"
        self._revision = url.revision or MAIN_BRANCH
        self._commit = self._revision if is_commit(self._revision) else options.commit or ""
        root = f"{self._requests.endpoint}/{self._repository}/resolve/{self._commit}"
        self._addresses = Addresses(self._requests, root)
        self.refresh = self._requests.refresh
        self.close = self._web.close

    def commit(self, *, again: bool = False) -> str:
        """Return the present commit of the revision.

        Args:
            again: Ask for it also if a process of this node has a moment ago, since several often start together.
        """

        def is_new(answer: tuple[str, float]) -> bool:
            return not again and abs(time.time() - answer[1]) < _SHARED_S

        question = ("revision", self._repository, self._revision)
        return self._requests.answer(question, tuple[str, float], self._present_commit, is_new)[0]

    def _present_commit(self) -> tuple[str, float]:
        """Return the commit, and the time of the answer."""
        document = next(self._requests.documents(f"{self._api}/revision/{quote(self._revision, safe='')}"))
        sha = document.get("sha") if isinstance(document, dict) else None
        if not (isinstance(sha, str) and is_commit(sha)):
            raise RequestFailure("the hub names no commit of this revision", Remedy.RETRY_FEW)
        return sha, time.time()

    def check_history(self, commit: str) -> None:
        """Check that a commit is in the history of the revision: pull requests of others have commits here, too."""
        question = ("history", self._repository, self._revision, commit)
        if not self._requests.answer(question, bool, partial(self._is_in_history, commit), is_usable=bool):
            cause = f"the index is of commit {commit}, which is not in the history of {self._revision}"
            raise RequestFailure(cause, Remedy.GIVE_UP, kind="no history")

    def _is_in_history(self, commit: str) -> bool:
        path = f"{self._api}/commits/{quote(self._revision, safe='')}"
        for document in islice(self._requests.documents(path), _HISTORY_PAGES):
            commits = document if isinstance(document, list) else ()
            if any(isinstance(each, dict) and each.get("id") == commit for each in commits):
                return True
        return False

    # ---------------------------------------------------------------------------------------------------- reading

    def get(self, key: str, start: int, stop: int) -> Received:
        address = self._address(key)
        if start >= address.size_bytes:
            raise RequestFailure(f"it has {address.size_bytes} bytes", Remedy.GIVE_UP, kind="changed")
        try:
            received = self._get_at(address, start, stop)
        except RequestFailure as failure:
            if failure.kind != "moved" and not (address.is_signed and failure.kind in _DENIED):
                raise
            # It has expired, or was taken back: ask for another one, once.
            address = self._addresses.of(quote(key), instead_of=address)
            received = self._get_at(address, start, stop)
        _check_no_pointer(received.data, address.size_bytes)
        if received.size_bytes not in (-1, address.size_bytes):
            cause = f"the hub says that it has {address.size_bytes} bytes, its store {received.size_bytes}"
            raise RequestFailure(cause, Remedy.RETRY_FEW)
        return Received(received.data, address.size_bytes, address.digest)

    def _get_at(self, address: Address, start: int, stop: int) -> Received:
        if address.is_signed:
            return self._web.get_range(address.url, start, stop, allowed=AFTER[address.hub_kind])
        # The resolver sends small files itself, and counts each read of them.
        size = address.size_bytes
        last = min(stop, size) - 1
        headers = {"Range": f"bytes={start}-{last}"}
        answer = self._requests.ask("GET", address.url, limit="resolver", headers=headers, most_bytes=size)
        self._requests.check(answer)
        if answer.status in REDIRECTS:  # its owner moved it to the large files
            raise RequestFailure("the hub has it elsewhere by now", Remedy.GIVE_UP, kind="moved")
        is_part = answer.status == 206
        data = answer.data if is_part else answer.data[start:stop]
        is_other = is_part and answer.headers.get("content-range") != f"bytes {start}-{last}/{size}"
        if is_other or len(data) != last + 1 - start:
            raise RequestFailure(f"requested bytes {start}–{last + 1}, received others", Remedy.RETRY_FEW)
        return Received(data, size, address.digest)

    def get_all(self, key: str) -> Received:
        address = self._address(key)
        size = address.size_bytes
        if size > MAX_WHOLE_BYTES:
            cause = f"it has {size:,} bytes, more than the {MAX_WHOLE_BYTES:,} that are read into memory at once"
            raise RequestFailure(cause, Remedy.GIVE_UP, kind="too large")
        return self.get(key, 0, size) if size else Received(b"", 0, address.digest)

    def head(self, key: str) -> ClientObject:
        address = self._address(key)
        return ClientObject(key, address.size_bytes, 0, address.digest)

    def _address(self, key: str) -> Address:
        address = self._addresses.of(quote(key))
        if not address.url:
            raise RequestFailure("it does not exist", Remedy.GIVE_UP, kind="missing")
        return address

    def pages(self, prefix: str) -> Iterator[Sequence[ClientObject]]:
        # The files of a commit never change, so one process of a node lists them for all.
        folder = prefix.rstrip("/")
        question = ("listing", self._repository, self._commit, folder)
        if listed := self._requests.answer(question, list[ClientObject], lambda: [*self._listed(folder)]):
            yield listed

    def _listed(self, folder: str) -> Iterator[ClientObject]:
        path = f"{self._api}/tree/{self._commit}{folder and '/'}{quote(folder)}?recursive=true&expand=false"
        try:
            for document in self._requests.documents(path):
                for entry in msgspec.convert(document, list[_Entry]):
                    if entry.type == "file":
                        yield ClientObject(entry.path, entry.size, 0, entry.lfs.oid if entry.lfs else entry.oid)
        except msgspec.ValidationError as error:
            raise RequestFailure(f"the hub's listing is invalid: {error}", Remedy.RETRY_FEW) from None
        except RequestFailure as failure:
            if failure.kind != "missing":  # of a folder, as of one in a bucket
                raise

    # ---------------------------------------------------------------------------------------------------- writing

    def put(self, *_: object, **__: object) -> NoReturn:
        raise RequestFailure("a repository is not written file by file", Remedy.GIVE_UP, kind="read-only hub")

    upload = delete = put

    def run_upload(self, step: str, url: ObjectUrl, *arguments: Any) -> Any:
        """Run a step of an upload to a URL of this repository, in the helper process: see :class:`.CommitUpload`."""
        with named_errors(url):
            return getattr(upload_to(url, self._requests.endpoint), step)(*arguments)


class _Lfs(msgspec.Struct):
    oid: str


class _Entry(msgspec.Struct):
    """A file or folder of a listing."""

    type: str
    path: str
    oid: str
    size: Annotated[int, msgspec.Meta(ge=0)] = 0
    lfs: _Lfs | None = None


def _check_no_pointer(data: bytes, size_bytes: int) -> None:
    if size_bytes <= _MAX_POINTER_BYTES and data.startswith(_LFS_POINTER):
        cause = "the repository has a pointer of Git LFS in place of this file"
        raise RequestFailure(cause, Remedy.GIVE_UP, kind="pointer")
