"""URLs of the pages of samples at a running ``energon browse``."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from ...errors import ConfigError
from .dataset_names import names_of

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
            raise ConfigError(f"expected a URL such as http://127.0.0.1:8800/?token=…, found {url!r}")
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
