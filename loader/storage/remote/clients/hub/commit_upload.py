"""Files of this machine, uploaded to a repository by the hub's own client, and named there by commits.

The client has threads, and hf-xet a runtime of them, so that this runs in the helper process. Large files are stored
without a commit, each as soon as it is finished. The hub does not take again what it has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from .....errors import EnergonError, StorageError
from ...object_url import MAIN_BRANCH, ObjectUrl, redact_urls

CARD = "README.md"
"""Path of the dataset card in a repository."""

_FILES_OF_COMMIT = 400  # the hub's client ends between 250 and 1,000; a failed commit is sent again whole
_WITHOUT_DATA = (CARD, ".gitattributes", "LICENSE")  # what a new repository may have
_PROBE = ".energon"  # a path that is asked about, and never written
_CONFLICT = 412
_HINTS = {
    401: "log in with: hf auth login; or set HF_TOKEN to a token that is valid",
    403: "set HF_TOKEN to a token that may write there, or log in with one: hf auth login",
    404: "check the name, or create it first: hf repos create OWNER/NAME --type dataset --private",
    _CONFLICT: "others commit to this branch all the time: run the same command again later",
}
_AGAIN = "check the network and the service, then run the same command again: what is uploaded stays"


class CommitUpload:
    """Uploads to a URL in a repository of data, whose branch gets the commits."""

    def __init__(self, url: ObjectUrl, endpoint: str) -> None:
        from huggingface_hub import HfApi
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

        disable_progress_bars()
        self._url, self._branch = url, url.revision or MAIN_BRANCH
        self._api = HfApi(endpoint=endpoint, library_name="energon-toolkit")
        self._name = url.container.removeprefix("datasets/")
        self._at: dict[str, Any] = {"repo_id": self._name, "repo_type": "dataset", "revision": self._branch}
        self._stored: dict[tuple[str, str, int, int], Any] = {}  # file and its version → addition

    def begin(self, is_new: bool) -> bool:
        """Check that files may be written; return True if the repository has a dataset card.

        Args:
            is_new: Nothing may have the path.
        """
        from huggingface_hub import CommitOperationAdd, get_token

        if not get_token():
            raise StorageError("no token of the hub was found", path=str(self._url), hint=_HINTS[401])
        branches = [ref.name for ref in self._api.list_repo_refs(self._name, repo_type="dataset").branches]
        if self._branch not in branches:
            cause = f"expected a branch, found {self._branch!r}; branches are {', '.join(branches)}"
            raise StorageError(cause, path=str(self._url), hint="write hf://datasets/OWNER/NAME@BRANCH/PATH")
        # The hub says before the first upload whether this token may write.
        self._preupload([CommitOperationAdd(_PROBE, b"\n")])
        # At the root of a repository, nothing may be but what each new one has.
        named = [CARD, self._url.key]
        listed = self._api.get_paths_info(**self._at, paths=named) if named[1] else self._api.list_repo_tree(**self._at)
        paths = {entry.path for entry in listed}
        if is_new and (others := sorted(paths.difference(_WITHOUT_DATA))):
            cause = f"the repository has {others[0]} already: nothing is overwritten"
            hint = "read it if an earlier run published it; else name another path, or remove it: hf repos delete-files"
            raise StorageError(cause, path=str(self._url), hint=hint)
        return CARD in paths

    def store(self, files: Sequence[tuple[str, str]]) -> None:
        """Store the large ones among some files: pairs of the path in the repository and the one on this machine."""
        from huggingface_hub import CommitOperationAdd

        new = {key: CommitOperationAdd(*key[:2]) for key in map(_version, files) if key not in self._stored}
        self._preupload([*new.values()])
        self._stored |= new

    def _preupload(self, operations: Sequence[Any]) -> None:
        self._api.preupload_lfs_files(**self._at, additions=operations, free_memory=False)
        for operation in operations:
            if operation._should_ignore:  # noqa: SLF001 - else the commit would leave it out in silence
                cause = f"the .gitignore of the repository leaves out {operation.path_in_repo}"
                raise StorageError(cause, path=str(self._url), hint="remove its line there")

    def commit(self, files: Sequence[tuple[str, str]], message: str, may_replace: bool) -> None:
        """Store what is missing, and name the files in one commit, or in a few; the last files come last.

        Args:
            may_replace: Files of other contents may be at the paths.
        """
        from huggingface_hub.errors import HfHubHTTPError

        for first in range(0, len(files), _FILES_OF_COMMIT):
            some = files[first : first + _FILES_OF_COMMIT]
            self.store(some)
            operations = {file[0]: self._stored.pop(_version(file)) for file in some}
            try:
                self._commit(operations, message, may_replace=may_replace)
            except HfHubHTTPError as error:
                if error.response.status_code != _CONFLICT:
                    raise
                self._commit(operations, message, may_replace=may_replace)  # on the commit that came in between

    def _commit(self, operations: dict[str, Any], message: str, *, may_replace: bool) -> None:
        head = self._api.repo_info(**self._at).sha
        for entry in () if may_replace else self._api.get_paths_info(**self._at, paths=[*operations]):
            lfs = getattr(entry, "lfs", None)
            digest = lfs.sha256 if lfs else getattr(entry, "blob_id", "")
            if entry.path == CARD:
                del operations[CARD]
            elif digest != operations[entry.path]._local_oid:  # noqa: SLF001 - as the client finds what is unchanged
                cause = f"the repository has another {entry.path} by now: nothing is overwritten"
                raise StorageError(cause, path=str(self._url), hint="name another path in it, or remove the file there")
        new = operations.values()
        self._api.create_commit(**self._at, operations=[*new], commit_message=message, parent_commit=head)


upload_to = cache(CommitUpload)
"""Return the upload to a URL at an endpoint, which knows the files that it has stored."""


def _version(file: tuple[str, str]) -> tuple[str, str, int, int]:
    status = os.stat(file[1])
    return *file, status.st_size, status.st_mtime_ns


@contextmanager
def named_errors(url: ObjectUrl) -> Iterator[None]:
    """Raise errors of the client with what to do about them, and without the token and signed addresses."""
    from huggingface_hub import get_token
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except EnergonError:
        raise
    except Exception as error:  # noqa: BLE001 - of the client, of hf-xet and of the network below them
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
        words = getattr(error, "server_message", None) or f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        cause = redact_urls(f"{status or ''} {words}".strip()).replace(get_token() or "\0", "…")
        hint = _HINTS.get(status, _AGAIN)
        raise StorageError(f"cannot write to this repository: {cause}", path=str(url), hint=hint) from None
