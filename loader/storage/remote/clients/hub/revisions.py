"""The commits at which a process and its workers read repositories: one for each branch or tag."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from .....escaped_log import get_logger
from ....shared_answers import answers_here
from ...object_url import ObjectUrl, is_commit, is_hub_url, parse_object_url
from ...options import options_for, remember_options
from ..connection import Retries

if TYPE_CHECKING:
    from .hub_client import HubClient

_Answer = TypeVar("_Answer")
_log = get_logger(__name__)


def commit_of(url: str) -> str:
    """Return the commit at which this process reads a URL of a repository; empty for other URLs, and for paths."""
    if not is_hub_url(url):
        return ""
    object_url = parse_object_url(url)
    return object_url.revision if is_commit(object_url.revision) else options_for(str(object_url)).commit or ""


def url_at_commit(url: str) -> str:
    """Return a URL of a repository with the commit at which this process reads it; other URLs and paths as they are."""
    commit = commit_of(url)
    return str(parse_object_url(url)._replace(revision=commit)) if commit else url


def pin_present_commit(url: str, *, unless_pinned: bool = False) -> None:
    """Read a URL of a repository at the present commit of its revision, in this process and in those that it starts.

    Other URLs and paths are left alone.

    Args:
        unless_pinned: Keep a commit at which the URL is read; without one, pin all of the repository.

    Raises:
        StorageError: The hub does not answer, or has no such revision.
    """
    if not is_hub_url(url):
        return
    object_url = parse_object_url(url)
    if is_commit(object_url.revision) or (unless_pinned and options_for(str(object_url)).commit):
        return
    whole = object_url._replace(key="")

    def present() -> bytes:
        return _ask(whole, lambda client: client.commit(again=not unless_pinned)).encode()

    # The ranks of a run read what the first one read, also if the branch moves on meanwhile.
    answers = answers_here.get()
    commit = present() if answers is None else answers.ask(("commit", str(whole)), present)
    remember_options(str(whole if unless_pinned else object_url), {"commit": commit.decode()})


def _ask(url: ObjectUrl, question: Callable[[HubClient], _Answer]) -> _Answer:
    from .hub_client import HubClient  # takes 20 ms, which commands for local data need not wait

    options = options_for(str(url))
    with closing(HubClient(url, options)) as client:
        retries = Retries(options.deadline_s, refresh=client.refresh)
        return retries.run(partial(question, client), action="read", url=str(url))


def pin_indexed_commit(url: str, commit: str) -> None:
    """Pin the commit at which the dataset of a URL was prepared, and warn if its revision names another one now.

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
