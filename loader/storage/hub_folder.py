"""A folder of this machine whose files are published in a repository of the Hugging Face Hub."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Self

from ..errors import ConfigError, EnergonError
from .local import LocalStorage
from .remote.clients.connection import Retries
from .remote.clients.helper_client import HelperClient
from .remote.clients.hub.commit_upload import CARD
from .remote.clients.hub.revisions import pin_present_commit
from .remote.object_url import is_commit, parse_object_url
from .remote.options import options_for
from .user_indexes import index_folders, index_name

STAGING_VARIABLE = "ENERGON_STAGING"
"""Environment variable with the folder in which new datasets wait for their commit, each as large as the dataset."""

_POLL_S = 1.0  # a shard takes longer to write
_METADATA = ".nv-meta/"
_VISIBLE = f"{_METADATA}.info."  # what else begins with a dot is a lock, or a folder of work


class UnnamedLicenseError(ConfigError):
    """A dataset card has to be written, and no licence is named."""


class HubFolder:
    """A folder of this machine to which a command writes what is to be in a repository.

    Inside the block, finished shards are uploaded while others are written; :meth:`publish` uploads the rest, and names
    all files in one commit or a few, so that a reader sees no half of a dataset. Without it, everything stays for the
    next block with the same URL.

    Args:
        url: ``hf://datasets/OWNER/NAME[@BRANCH]/PATH``.
        is_file: It is one file, which may be replaced, and needs no dataset card.

    Attributes:
        url: The URL, in the form by which options are looked up.
        path: Path of the file or folder on this machine.
        license: Licence for the card that has to be written; None if there is a card.
    """

    def __init__(self, url: str, *, is_file: bool = False) -> None:
        self._url = parse_object_url(url)
        self.url = str(self._url)
        if not self._url.container.startswith("datasets/") or is_commit(self._url.revision):
            hint = "write hf://datasets/OWNER/NAME/PATH, or hf://datasets/OWNER/NAME@BRANCH/PATH"
            raise ConfigError("expected a branch of a repository of data", at=self.url, hint=hint)
        self._is_file = is_file
        # The end of the URL names what is written, as it would in another folder.
        staging = os.path.expanduser(os.environ.get(STAGING_VARIABLE) or os.path.join(index_folders()[0], "staging"))
        self._folder = LocalStorage(os.path.join(staging, index_name(self.url)))
        self.path = self._folder.path(f"new/{(self._url.key or self._url.container).rpartition('/')[2]}")
        self.license: str | None = None
        self._has_ended = threading.Event()

    def __enter__(self) -> Self:
        """Check that the files may be written.

        Raises:
            UnnamedLicenseError: There is no card, and no storage option ``license``.
            StorageError: The repository, the branch or the permission is missing; or the path is taken.
        """
        options = options_for(self.url)
        with ExitStack() as stack:
            stack.enter_context(self._folder.lock("lock"))
            is_new = not self._is_file and not os.path.exists(self.path)
            if not (self._call("begin", is_new) or self._is_file):
                self.license = options.license
                if not self.license:
                    hint = "pass --license cc-by-4.0, or another identifier of the hub, or --license none"
                    raise UnnamedLicenseError("a new dataset card names a licence", at=self.url, hint=hint)
            self._open = stack.pop_all()
        self._has_ended.clear()
        self._thread = threading.Thread(target=self._store_shards, daemon=True, name="hub-upload")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._open.close()

    def publish(self, message: str, card: str = "") -> None:
        """Name all files in commits, and remove them from this machine.

        Args:
            card: Text of the dataset card, if one has to be written.
        """
        self._has_ended.set()
        self._thread.join()
        files = [*self._files()]
        if card:
            self._folder.write(CARD, card.encode())
            files.insert(0, (CARD, self._folder.path(CARD)))
        self._call("commit", files, message, self._is_file)
        shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)
        pin_present_commit(self.url)  # also where an earlier commit was read

    def _files(self) -> Iterator[tuple[str, str]]:
        """Yield the path in the repository and the path here of each file; what makes a dataset visible is last."""
        if os.path.isfile(self.path):
            yield self._url.key, self.path
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(self.path) for name in names]
        names = {os.path.relpath(path, self.path): path for path in paths}
        for name in sorted(names, key=lambda name: (name.startswith(_VISIBLE), name.startswith(_METADATA), name)):
            if name.startswith(_VISIBLE) or not name.startswith(f"{_METADATA}."):
                yield f"{self._url.key}/{name}".strip("/"), names[name]

    def _store_shards(self) -> None:
        """Upload shards as they are finished; after a failure, the end uploads what is missing."""
        done: set[tuple[str, str]] = set()
        with suppress(EnergonError):
            while not self._has_ended.wait(_POLL_S):
                shards = [file for file in self._files() if file[1].endswith(".tar") and file not in done]
                if shards:
                    self._call("store", shards)
                done.update(shards)

    def _call(self, step: str, *arguments: Any) -> Any:
        options = options_for(self.url)
        run = partial(HelperClient(self._url, options).run_upload, step, self._url, *arguments)
        return Retries(options.deadline_s).run(run, action="write", url=self.url)
