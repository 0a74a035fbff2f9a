"""URLs of the pages of samples at a running ``energon browse``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from ...errors import ConfigError
from ...format.documents.providers import is_metadataset
from ...metadataset.datasets import DatasetNames
from ...metadataset.plans.plan_leaves import plan_splits

_UNQUOTED = "!~*'()"  # as encodeURIComponent of JavaScript


class PageLinks:
    """URLs of the pages of samples, at a server that browses the same path or paths.

    Args:
        url: The URL that ``energon browse`` printed; its token stays in the links.
        path: A dataset or metadataset.
        among: All paths that the server browses, in their order; None for this one.

    Raises:
        ConfigError: This is no URL of a server.
    """

    def __init__(self, url: str, path: str, *, among: Sequence[str] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(
                f"expected the URL that energon browse printed, http://127.0.0.1:8800/ and its token, found {url!r}"
            )
        self._parts = parts
        self._path = path
        self._names = names_of((path,) if among is None else among)

    def url(self, dataset: str | None, shard: str | None, key: str | None) -> str | None:
        """Return the URL of a sample; None if it has no page.

        Args:
            dataset: Path of the dataset; None for the path itself.
            shard: Name of the shard.
            key: Bare key.
        """
        name = self._names.get(dataset or self._path)
        if name is None or shard is None or key is None or name in (".", ".."):
            return None
        return page_url(urlunsplit(self._parts), name, shard, key)


def page_url(url: str, dataset: str, shard: str, key: str) -> str | None:
    """Return the URL of a sample's page; None for a name that is not UTF-8.

    Args:
        url: The URL that ``energon browse`` printed; its token stays in the link.
        dataset: Name of the dataset in the catalogue of the server.
        shard: Name of the shard.
        key: Bare key.
    """
    parts = urlsplit(url)
    query = parts.query
    try:
        page = f"/s/{quote(dataset, safe=_UNQUOTED)}/"
        if {shard, key} & {"", ".", ".."}:  # browsers would resolve them
            query = "&".join(filter(None, (query, urlencode({"shard": shard, "key": key}))))
        else:
            page += f"{quote(shard, safe=_UNQUOTED)}/{quote(key, safe=_UNQUOTED)}"
    except UnicodeEncodeError:
        return None
    return urlunsplit((parts.scheme, parts.netloc, page, query, ""))


def names_of(paths: Sequence[str]) -> dict[str, str]:
    """Return the datasets that a server of some paths has: path → name, the first one of a path that comes twice.

    Args:
        paths: Datasets and metadatasets; one with faults has no datasets.
    """
    names, found = DatasetNames(), dict[str, str]()
    for one in (one for path in paths for one in _paths(path)):
        name = names.add(one)
        found.setdefault(one, name)
    return found


def _paths(path: str) -> Iterator[str]:
    if not is_metadataset(path):
        yield path
        return
    planned = plan_splits(path)
    if planned.faults:
        return
    for split in planned.names:
        for leaf in planned.trees[split].leaves():
            yield from (one.path for one in leaf.datasets)
