"""Parse the URLs of datasets in object stores, and remove credentials from texts."""

from __future__ import annotations

import re
import warnings
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from ...errors import ConfigError

PROTOCOLS = frozenset({"s3", "gs", "az", "abfs", "abfss", "http", "https", "msc", "rclone", "hf"})
"""Protocols of object stores."""

_CANNOT = "cannot use this URL: "
_SECRETS = re.compile(
    # User names and passwords; keys of S3 may have slashes, which users forget to quote. The names of datasets and of
    # Azure's containers, which precede an @, too, are no secrets.
    r"(?P<start>\b(?:[a-z0-9.-]+\+)?(?:dss|abfss?)://[^/\s?#:@]+@(?![^/\s?#]*@)|\b[a-z][a-z0-9+.-]*://)(?:[^/\s?#]*@|[^/\s?#@:]*:(?!\d*/)[^\s?#@]*@)?(?P<path>[^\s?'\"<>]*)(?P<query>\?[^\s'\"<>]*)?",
    re.IGNORECASE,
)
MAIN_BRANCH = "main"
"""The branch of a URL without a revision."""

_REPOSITORY = re.compile(r"(?:(?:datasets|spaces)/|(?!(?:datasets|spaces)/))[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
_SPECIAL_REVISION = re.compile(r"refs/(?:pr|convert)/[^/]+")
_CONTAINER = re.compile(
    rf"(?:(?:datasets|spaces|models)/)?[^/@]+/[^/@]+(?:@(?:{_SPECIAL_REVISION.pattern}(?=/|$)|[^/]*))?"
)

_HUB_PAGE = re.compile(r"huggingface\.co/((?:(?:datasets|spaces)/)?[^/]+/[^/]+)(?:/(?:tree|blob)/([^/]+)(/.*)?)?/?")


class ObjectUrl(NamedTuple):
    """The parts of a URL."""

    # `s3`, `gs`, `az`, `http`, `https`, `hf` or `msc`; Azure's other names are `az`, and `rclone` is `msc`.
    protocol: str
    container: str  # bucket, container, `host[:port]`, profile, or repository, such as `datasets/OWNER/NAME`
    key: str  # path in it, without slashes at its ends
    account: str = ""  # account of Azure, from an `abfs://container@account.…` URL
    profiles: int = 0  # state of the files with profiles when a `msc` URL was opened
    revision: str = ""  # branch, tag or commit of a repository, as it is written; empty for its main branch

    def __str__(self) -> str:
        at = f"@{self.account}.dfs.core.windows.net" if self.account else ""
        if self.revision:
            is_special = _SPECIAL_REVISION.fullmatch(self.revision) is not None
            at = f"@{self.revision if is_special else quote(self.revision, safe='')}"
        root = f"{'abfss' if self.account else self.protocol}://{self.container}{at}"
        return f"{root}/{self.key}" if self.key else root


def parse_object_url(url: str) -> ObjectUrl:
    """Split a URL into its parts.

    >>> parse_object_url("s3://bucket/data/coco/")
    ObjectUrl(protocol='s3', container='bucket', key='data/coco', account='', profiles=0, revision='')
    >>> str(parse_object_url("abfs://images@team.dfs.core.windows.net/coco"))
    'abfss://images@team.dfs.core.windows.net/coco'
    >>> str(parse_object_url("hf://datasets/me/cats@refs%2Fpr%2F1/train")), parse_object_url("hf://me/cats@v1").revision
    ('hf://datasets/me/cats@refs/pr/1/train', 'v1')
    """
    # Split it, with the other names of protocols.
    protocol, _, rest = url.partition("://")
    container, key = split_container(protocol, rest)
    key = key.strip("/")
    account = revision = ""
    if protocol == "rclone":
        protocol = "msc"
        # megatron-energon warns of the same class, which Python shows by default.
        warnings.warn(
            "rclone:// is deprecated; write msc://, which reads its profiles, too", FutureWarning, stacklevel=3
        )
    if protocol in ("abfs", "abfss"):
        protocol = "az"
        container, at, host = container.partition("@")
        if at:
            account, _, domain = host.partition(".")
            if domain not in ("dfs.core.windows.net", "blob.core.windows.net"):
                raise _invalid(url, f"expected abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH, found {domain!r}")
    if protocol == "hf":
        container, at, quoted = container.removeprefix("models/").partition("@")
        revision = "" if quoted == MAIN_BRANCH else unquote(quoted)
        if not _REPOSITORY.fullmatch(container) or (at and not quoted):
            raise _invalid(
                url,
                "it names no repository",
                "write hf://datasets/OWNER/NAME/PATH, or hf://datasets/OWNER/NAME@REVISION/PATH",
            )
    page = _HUB_PAGE.fullmatch(rest) if protocol == "https" else None
    if page is not None:  # as a browser shows it
        revision = f"@{page[2]}" if page[2] else ""
        raise _invalid(
            url, "it is a page of the Hugging Face Hub", f"write hf://{page[1]}{revision}{(page[3] or '').rstrip('/')}"
        )
    # Refuse what no URL of a dataset has.
    if "?" in rest:
        raise _invalid(url, "a URL of a dataset has no query", "give options by storage_options or --storage-option")
    if "@" in container or (":" in container and redact_urls(url) != url):
        raise _invalid(url, "a URL must not hold credentials", "set them in the environment")
    if not container:
        raise _invalid(url, "it has no bucket", "write it like s3://bucket/path")
    if any(part in ("..", ".") for part in key.split("/")) or "\0" in url:
        raise _invalid(url, "it has a part '.' or '..'", "write the whole path")
    if protocol in ("http", "https") and not urlsplit(f"http://{container}").hostname:
        raise _invalid(url, "it has no host", "write it like https://host/path")
    return ObjectUrl(protocol, container, key, account, revision=revision)


def is_hub_url(path: str) -> bool:
    """Return True for the URL of a file or folder in a repository of the Hugging Face Hub."""
    return path.startswith("hf://")


def split_container(protocol: str, rest: str) -> tuple[str, str]:
    """Split what follows a protocol into the bucket, or the repository with its revision, and the path in it.

    >>> split_container("s3", "bucket/a/b"), split_container("hf", "datasets/me/cats@refs/pr/1/a/b")
    (('bucket', 'a/b'), ('datasets/me/cats@refs/pr/1', 'a/b'))
    """
    match = _CONTAINER.match(rest) if protocol == "hf" else None
    container = rest.partition("/")[0] if match is None else match[0]
    return container, rest[len(container) + 1 :]


def is_commit(revision: str) -> bool:
    """Return True if a revision is a commit, which never changes, and no branch or tag.

    >>> is_commit("main"), is_commit("0123456789" * 4)
    (False, True)
    """
    return re.fullmatch(r"[0-9a-f]{40}", revision) is not None


def redact_urls(text: str) -> str:
    """Remove user names, passwords and the contents of queries from all URLs of a text.

    >>> redact_urls("s3://KEY:a/key@bucket/x, http://host:80/a@b")
    's3://bucket/x, http://host:80/a@b'
    >>> redact_urls("GET https://me:secret@host/x?sig=secret failed")
    'GET https://host/x?… failed'
    >>> redact_urls("dss://coco@v1/x, abfss://images@team.dfs.core.windows.net")
    'dss://coco@v1/x, abfss://images@team.dfs.core.windows.net'
    """
    return _SECRETS.sub(lambda match: f"{match['start']}{match['path']}{'?…' if match['query'] else ''}", text)


def host_of(url: str) -> str:
    """Return the protocol and the host of a URL with its port, or its bucket.

    >>> host_of("https://Host:8443/a?b=c"), host_of("https://me:sec/ret@host/a")
    ('https://host:8443', 'https://host')
    """
    protocol, _, rest = (redact_urls(url) if "@" in url else url).partition("://")
    return f"{protocol}://{rest.replace('?', '/').replace('#', '/').partition('/')[0].rpartition('@')[2]}".lower()


def hide_query(url: str) -> str:
    """Return a URL as it is shown: without credentials, query and fragment.

    >>> hide_query("https://me:sec@ret@host/a.jpg?sig=secret value")
    'https://host/a.jpg?…'
    """
    plain, mark, _ = url.partition("#")[0].partition("?")
    return f"{redact_urls(plain)}{mark and '?…'}"


def secret_fault(url: str) -> str | None:
    """Return what is wrong with a URL of an object store that has credentials or a query; None if it has neither.

    >>> secret_fault("filesystem+s3://me:planted@bucket/x"), secret_fault("s3://bucket/x"), secret_fault("./x")
    ('a URL must not hold credentials', None, None)
    """
    inner = url.removeprefix("filesystem+")
    if inner.partition("://")[0] not in PROTOCOLS or redact_urls(inner) == inner:
        return None
    try:
        parse_object_url(inner)
    except ConfigError as error:
        return error.message.removeprefix(_CANNOT)
    return None  # abfss://container@account


def _invalid(url: str, fault: str, hint: str | None = None) -> ConfigError:
    return ConfigError(f"{_CANNOT}{fault}", at=redact_urls(url), hint=hint)
