"""Routes of many samples: the catalogue, rows of the grid, searches and statistics."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from functools import partial
from typing import Any

from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from loader.errors import EnergonError
from loader.inspect.browse import (
    SEARCH_KINDS,
    SampleOrder,
    SearchRequest,
    TrainingOrder,
    needs_scan,
    ordered_samples,
    search_samples,
    statistics,
    tags,
    training_rows,
)
from loader.inspect.runs import RunRequest

from .requests import Served, integer, json_answer, row_document

_MAX_ROWS = 500
_MAX_SEED = 2**63
_MAX_SAMPLE = 2**62  # of a run; its order is computed in 64 bits
_MAX_SHARDS = 10_000  # that the catalogue lists
_MAX_SAMPLED = 100_000  # samples that the statistics read
_MAX_RANKS = 1 << 16
_MAX_BATCH = 1 << 14
_KILLED = "the process that searched was killed; search other shards"


class DatasetRoutes:
    """Answers to requests about a dataset, or all of them."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def routes(self) -> list[Route]:
        """Return the routes."""
        dataset = "/api/d/{dataset:number}"
        return [
            Route("/api/catalogue", self._describe),
            Route("/api/training", self._training),
            Route(f"{dataset}/facets", self._facets),
            Route(f"{dataset}/rows", self._rows),
            Route(f"{dataset}/search", self._search),
            Route(f"{dataset}/stats", self._statistics),
            Route(f"{dataset}/find", self._find),
        ]

    async def _describe(self, _request: Request) -> Response:
        def describe() -> dict[str, Any]:
            datasets = [
                {
                    "name": one.name,
                    "path": one.folder.path,
                    "samples": len(SampleOrder(ranges=one.ranges())),
                    "weight": one.weight,
                    "split_part": one.split_part,
                    "place": one.place,
                }
                for one in self._served.catalogue.datasets
            ]
            trees = [asdict(tree) for tree in self._served.catalogue.trees]
            return {"datasets": datasets, "trees": trees, "edit": self._served.edit}

        return json_answer(await run_in_threadpool(describe))

    async def _facets(self, request: Request) -> Response:
        dataset = self._served.dataset(request)

        def describe() -> dict[str, Any]:
            return {
                "split_parts": dataset.split_parts,
                "shards": list(dataset.shards)[:_MAX_SHARDS],
                "tags": tags(dataset.folder),
            }

        return json_answer(await run_in_threadpool(describe))

    async def _rows(self, request: Request) -> Response:
        dataset, start = self._served.dataset(request), integer(request, "start", 0)
        count = min(_MAX_ROWS, integer(request, "count", 100))
        query = request.query_params
        seed = integer(request, "seed", 0) % _MAX_SEED if "seed" in query else None
        where, facets = query.get("where"), _facets(query)

        def read() -> dict[str, Any]:
            if where and needs_scan(dataset.folder, where):
                return {"scan": True}  # the page then searches
            ranges = self._served.chosen(dataset, where, **facets) if where else dataset.ranges(**facets)
            order = SampleOrder(ranges=ranges, seed=seed)
            numbers = ordered_samples(order, start, start + count).tolist()
            number = request.path_params["dataset"]
            rows = [row_document(dataset, one, number) for one in numbers]
            return {"total": len(order), "start": start, "rows": rows}

        return json_answer(await run_in_threadpool(read))

    async def _training(self, request: Request) -> Response:
        """Answer with the samples of a training run, step by step."""
        start, count = integer(request, "start", 0), min(_MAX_ROWS, integer(request, "count", 100))
        paths = self._served.catalogue.refs
        path = integer(request, "path", 0)
        if path >= len(paths):
            raise HTTPException(404, "there is no such path")
        run = RunRequest(
            path=paths[path].path,
            split_part=request.query_params.get("split_part") or "train",
            batch_size=min(_MAX_BATCH, integer(request, "batch_size", 1)),
            world_size=min(_MAX_RANKS, integer(request, "ranks", 1)),
            num_workers=min(_MAX_RANKS, integer(request, "workers", 0)),
            shuffle_buffer_size=integer(request, "shuffle_buffer_size", 0) or None,
            max_samples_per_sequence=integer(request, "max_samples_per_sequence", 0) or None,
            seed_offset=integer(request, "seed_offset", 0),
        )
        rank = integer(request, "rank", 0) if request.query_params.get("rank") else None
        order = TrainingOrder(request=run, step=integer(request, "step", 0), rank=rank)
        if len(order) + order.step * run.world_size * (run.batch_size or 1) >= _MAX_SAMPLE:
            raise HTTPException(400, "expected the step of a run, found a number beyond any run")
        rows = await self._served.in_worker(training_rows, order, start, start + count)

        def describe() -> list[dict[str, Any]]:
            return [
                {
                    "step": row.step,
                    "rank": row.rank,
                    "position": row.position,
                    **self._row_of(row.dataset, row.key),
                }
                for row in rows
            ]

        return json_answer({"total": len(order), "start": start, "rows": await run_in_threadpool(describe)})

    def _row_of(self, path: str, key: str) -> dict[str, Any]:
        number = self._served.catalogue.dataset_of(path)
        shard, slash, bare = key.partition("/")
        if number is not None and slash:
            dataset = self._served.catalogue.datasets[number]
            sample = dataset.find(shard, bare)
            if sample is not None:
                return row_document(dataset, sample, number)
        return {"d": None, "n": None, "shard": path, "key": key, "picture": None, "excluded": False}

    async def _search(self, request: Request) -> Response:
        dataset, query = self._served.dataset(request), request.query_params
        kind = next((one for one in SEARCH_KINDS if one == query.get("in", "keys")), None)
        if kind is None:
            raise HTTPException(400, f"expected in to be one of {', '.join(SEARCH_KINDS)}")
        search = SearchRequest(
            text=query.get("text", ""),
            kind=kind,
            ranges=await run_in_threadpool(partial(dataset.ranges, **_facets(query))),
        )
        batches = search_samples(dataset, search, self._served.readers.submit)
        try:
            first = await run_in_threadpool(next, batches, None)  # before the answer begins: it has a status of its own
        except BrokenProcessPool as error:
            raise HTTPException(422, _KILLED) from error

        def line(batch: Any) -> str:
            number = request.path_params["dataset"]
            rows = [{**row_document(dataset, one, number), "note": batch.notes.get(one)} for one in batch.found]
            return json.dumps({"rows": rows, "searched": batch.searched}) + "\n"

        async def lines() -> AsyncIterator[str]:
            if first is None:
                return
            yield await run_in_threadpool(line, first)
            try:
                async for batch in iterate_in_threadpool(batches):
                    if await request.is_disconnected():
                        await run_in_threadpool(batches.close)
                        return
                    yield await run_in_threadpool(line, batch)
            except (EnergonError, BrokenProcessPool) as error:
                yield json.dumps({"fault": _KILLED if isinstance(error, BrokenProcessPool) else str(error)}) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _statistics(self, request: Request) -> Response:
        dataset = self._served.dataset(request)
        split_part = request.query_params.get("split_part") or dataset.split_part
        sample = min(_MAX_SAMPLED, integer(request, "sample", 5000))
        document = await self._served.in_worker(statistics, dataset.ref, split_part, sample)
        return json_answer(document, headers={"Cache-Control": "private, max-age=300"})

    async def _find(self, request: Request) -> Response:
        query = request.query_params
        dataset = self._served.dataset(request)
        number = await run_in_threadpool(dataset.find, query.get("shard", ""), query.get("key", ""))
        if number is None:
            raise HTTPException(404, "there is no such sample")
        return json_answer({"number": number})


def _facets(query: Mapping[str, str]) -> dict[str, str | None]:
    return {"split_part": query.get("split_part"), "shard": query.get("shard")}
