"""Addresses of the pages of a browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from ...errors import ConfigError
from ...format.data_kind import data_kind
from ...metadataset.datasets import DatasetNames
from ...metadataset.plans.plan_leaves import plan_splits

_UNQUOTED = "!~*'()"  # as encodeURIComponent of JavaScript


class PageLinks:
    """URLs of the pages of samples, at a server that browses the same path or paths.

    Args:
        url: The URL that ``energon browse`` printed; its token stays in the links.
        among: All paths that the server browses, in their order; None for this one.
    """

    def __init__(self, url: str, path: str, *, among: Sequence[str] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(
                f"expected the URL that energon browse printed, http://127.0.0.1:8800/ and its token, found {url!r}"
            )
        self._url = url
        self._path = path
        names = DatasetNames()
        self._names: dict[str, str] = {}  # of a path that comes twice, the first one
        for dataset in (
            dataset_path for each in ((path,) if among is None else among) for dataset_path in _paths(each)
        ):
            self._names.setdefault(dataset, names.add(dataset))

    def url(self, dataset: str | None, shard: str | None, key: str | None) -> str | None:
        """Return the URL of a sample, of the path itself without a dataset; None if it has no page."""
        name = self._names.get(dataset or self._path)
        if name is None or shard is None or key is None or name in (".", ".."):
            return None
        return page_url(self._url, name, shard, key)


def page_url(url: str, dataset: str, shard: str, key: str) -> str | None:
    """Return the URL of a sample's page, with the token of ``url``; None for a name that is not UTF-8."""
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


def _paths(path: str) -> Iterator[str]:
    """Yield the datasets of a path; a metadataset with faults has none."""
    if not data_kind(path).is_mix:
        yield path
        return
    planned = plan_splits(path)
    if planned.faults:
        return
    for split in planned.names:
        for leaf in planned.trees[split].leaves():
            yield from (dataset.path for dataset in leaf.datasets)
