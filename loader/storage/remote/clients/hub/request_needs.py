"""Count the requests to the hub that a run needs, and compare them with its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from ...object_url import is_commit, is_hub_url, parse_object_url

LIMITS = {
    "anonymous": (500, 3_000),
    "free": (1_000, 5_000),
    "PRO": (2_500, 12_000),
    "Team": (3_000, 20_000),
    "Enterprise": (6_000, 50_000),
    "Enterprise Plus": (10_000, 100_000),
}
"""Plan of a user → requests in five minutes, to the API and to the resolver (https://huggingface.co/docs/hub/rate-limits
in November 2026)."""

_WINDOWS_OF_HOUR = 12
_FILES_OF_PAGE = 1_000  # of a listing


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """The limits of a plan, and how much of them a run needs.

    Attributes:
        api: Requests to the API in five minutes.
        resolver: Requests to the resolver in five minutes.
        share: Share of five minutes' API requests, or of an hour's resolver requests, that the run needs: the greater
            one. Above 1, reads wait for the limit.
    """

    name: str
    api: int
    resolver: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestNeeds:
    """Requests to the hub that a run needs.

    Attributes:
        nodes: Machines of the run.
        api: Requests to the API when it starts: the commit of each branch, on each node.
        resolver_an_hour: Requests to the resolver in an hour, at most: the address of each shard, on each node.
        listing_pages: Requests that list the files before; 0 with an index.
    """

    nodes: int
    api: int
    resolver_an_hour: int
    listing_pages: int
    plans: tuple[PlanLimits, ...]


def request_needs(shards: Mapping[str, int], *, nodes: int, is_prepared: bool = True) -> RequestNeeds | None:
    """Return the requests that a run on datasets needs; None if none of them is in a repository of the hub.

    Args:
        shards: Path or URL of a dataset → number of its shards.
        nodes: Machines of the run, which share no addresses.
        is_prepared: An index names the shards, so that they are not listed.

    >>> needs = request_needs({"hf://datasets/me/cats": 2000, "s3://bucket/dogs": 50}, nodes=32)
    >>> needs.api, needs.resolver_an_hour, [round(plan.share, 2) for plan in needs.plans[:3]]
    (32, 64000, [1.78, 1.07, 0.44])
    """
    of_hub = {url: count for url, count in shards.items() if is_hub_url(url)}
    if not of_hub:
        return None
    revisions = {parse_object_url(url)._replace(key="") for url in of_hub}
    api = nodes * sum(not is_commit(revision.revision) for revision in revisions)
    resolver = nodes * sum(of_hub.values())
    return RequestNeeds(
        nodes=nodes,
        api=api,
        resolver_an_hour=resolver,
        listing_pages=0 if is_prepared else sum(ceil(count / _FILES_OF_PAGE) for count in of_hub.values()),
        plans=tuple(
            PlanLimits(
                name=name,
                api=limit,
                resolver=of_resolver,
                share=max(api / limit, resolver / (_WINDOWS_OF_HOUR * of_resolver)),
            )
            for name, (limit, of_resolver) in LIMITS.items()
        ),
    )
