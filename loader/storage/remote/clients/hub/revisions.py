"""The commits at which a process and its workers read repositories: one for each branch or tag."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from .....escaped_log import get_logger
from ....shared_answers import answers_here
from ...object_url import ObjectUrl, is_commit, parse_object_url
from ...options import options_for, remember_options
from ..connection import Retries

if TYPE_CHECKING:
    from .hub_client import HubClient

_Answer = TypeVar("_Answer")
_log = get_logger(__name__)


def commit_of(url: str) -> str:
    """Return the commit at which this process reads a URL of a repository; empty for other URLs, and for paths."""
    if not url.startswith("hf://"):
        return ""
    object_url = parse_object_url(url)
    return object_url.revision if is_commit(object_url.revision) else options_for(str(object_url)).commit or ""


def url_at_commit(url: str) -> str:
    """Return a URL of a repository with the commit at which this process reads it; other URLs and paths as they are."""
    commit = commit_of(url)
    return str(parse_object_url(url)._replace(revision=commit)) if commit else url


def pin_commit(url: ObjectUrl, *, again: bool = False) -> None:
    """Remember the present commit of a URL's revision: neither this process nor one that it starts reads another.

    Args:
        again: Ask for the present commit also if one is remembered.

    Raises:
        StorageError: The hub does not answer, or has no such revision.
    """
    options = options_for(str(url))
    if is_commit(url.revision) or (options.commit and not again):
        return
    whole = url._replace(key="")

    def present() -> bytes:
        return _ask(whole, lambda client: client.commit(again=again)).encode()

    # The ranks of a run read what the first one read, also if the branch moves on meanwhile.
    answers = answers_here.get()
    commit = present() if answers is None else answers.ask(("commit", str(whole)), present)
    remember_options(str(url if again else whole), {"commit": commit.decode()})


def _ask(url: ObjectUrl, question: Callable[[HubClient], _Answer]) -> _Answer:
    from .hub_client import HubClient  # takes 20 ms, which commands for local data need not wait

    options = options_for(str(url))
    with closing(HubClient(url, options)) as client:
        retries = Retries(options.deadline_s, refresh=client.refresh)
        return retries.run(partial(question, client), action="read", url=str(url))


def read_present(url: str) -> None:
    """Read a URL of a repository at the present commit of its revision, also if an index of another one was read."""
    if url.startswith("hf://"):
        pin_commit(parse_object_url(url), again=True)


def read_at(url: str, commit: str) -> None:
    """Read a URL at the commit at which its dataset was prepared, and warn if its revision names another one now.

    Raises:
        StorageError: The commit is not in the history of the revision: the index of others may name any.
    """
    now = commit_of(url)
    if not (commit and now) or commit == now:
        return
    object_url = parse_object_url(url)
    if is_commit(object_url.revision):
        return  # the user chose the commit; shards that differ are refused by their digests
    _ask(object_url._replace(key=""), lambda client: client.check_history(commit))
    _log.warning(
        "%s is read at commit %s, at which it was prepared; its %s is at %s now: to read that, prepare it again",
        url,
        commit[:12],
        object_url.revision or "main branch",
        now[:12],
    )
    remember_options(url, {"commit": commit})
