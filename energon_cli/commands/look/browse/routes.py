"""Routes of the web application: samples, their parts, searches, statistics and edits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any, TypeVar

from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from loader.dataset.query import SampleQuery, find_samples
from loader.errors import EnergonError, WorkerError
from loader.inspect import ExcludeRequest, exclude
from loader.inspect.browse import (
    SEARCH_KINDS,
    BrowsedDataset,
    Catalogue,
    PartAddress,
    SampleOrder,
    SearchRequest,
    ThumbnailPool,
    TrainingOrder,
    WorkerPool,
    describe_tensors,
    lint_samples,
    mapped_document,
    media_type,
    needs_scan,
    ordered_samples,
    sample_page,
    search_samples,
    statistics,
    tag_samples,
    tags,
    training_rows,
)
from loader.inspect.runs import RunRequest
from loader.samples import PictureError

from .requests import MAX_RANGE_BYTES, byte_range, etag, integer, json_answer, row_document, selection_of

_THUMBNAIL_PIXELS = (128, 256, 512, 1024)
_FOREVER = "private, max-age=31536000, immutable"
_DATA_POLICY = "default-src 'none'; sandbox"
_MAX_ROWS = 500
_MAX_SEED = 2**63
_MAX_SAMPLE = 2**62  # of a run; its order is computed in 64 bits
_MAX_SHARDS = 10_000  # that the catalogue lists
_MAX_SAMPLED = 100_000  # samples that the statistics read
_MAX_RANKS = 1 << 16
_MAX_BATCH = 1 << 14
_KILLED = "the process that searched was killed; search other shards"


_T = TypeVar("_T")


class Routes:
    """Answers to requests about samples, datasets and all of them; edits are refused unless the server allows them."""

    def __init__(self, catalogue: Catalogue, *, thumbnails: ThumbnailPool, readers: WorkerPool, edit: bool) -> None:
        self._catalogue, self._thumbnails, self._readers, self._edit = catalogue, thumbnails, readers, edit
        self._chosen = lru_cache(maxsize=8)(BrowsedDataset.chosen)  # the array of a condition, for its further pages

    def routes(self) -> list[Route]:
        # Paths name a dataset and a sample by their numbers.
        dataset = "/api/d/{dataset:number}"
        sample = f"{dataset}/{{number:number}}"
        answers = {
            f"{sample}/thumbnail": self._thumbnail,
            f"{sample}/part": self._part,
            sample: self._sample,
            f"{sample}/mapped": self._mapped,
            f"{sample}/findings": self._findings,
            f"{sample}/tensors": self._tensors,
            "/api/catalogue": self._describe,
            "/api/training": self._training,
            f"{dataset}/facets": self._facets,
            f"{dataset}/rows": self._rows,
            f"{dataset}/search": self._search,
            f"{dataset}/stats": self._statistics,
            f"{dataset}/find": self._find,
        }
        # Edits are POST requests, which a link of another site cannot make.
        edits = {f"{dataset}/exclude": self._exclude, f"{dataset}/tag": self._tag}
        return [
            *(Route(path, answer) for path, answer in answers.items()),
            *(Route(path, answer, methods=["POST"]) for path, answer in edits.items()),
        ]

    # ------------------------------------------------------------------------------------------------- one sample

    async def _sample(self, request: Request) -> Response:
        dataset, sample = self._sample_of(request)
        return await run_in_threadpool(lambda: json_answer(sample_page(dataset, sample)))

    async def _mapped(self, request: Request) -> Response:
        dataset, sample = self._sample_of(request)
        row = await run_in_threadpool(dataset.row, sample)
        return json_answer(await self._in_worker(mapped_document, dataset.ref, f"{row.shard}/{row.key}"))

    async def _findings(self, request: Request) -> Response:
        dataset, sample = self._sample_of(request)
        findings = await self._in_worker(lint_samples, dataset.address, [sample])
        return json_answer(
            [{"code": finding.code, "part": finding.part, "message": finding.message} for finding in findings]
        )

    async def _tensors(self, request: Request) -> Response:
        dataset, sample = self._sample_of(request)
        name = request.query_params.get("part", "")
        part = next((part for part in await run_in_threadpool(dataset.parts, sample) if part.name == name), None)
        if part is None:
            raise KeyError(name)
        return json_answer(await self._in_worker(describe_tensors, PartAddress(dataset.address, sample, name)))

    async def _thumbnail(self, request: Request) -> Response:
        dataset, sample = self._sample_of(request)
        part = request.query_params.get("part", "")
        pixels = min(_THUMBNAIL_PIXELS, key=lambda size: abs(size - integer(request, "pixels", 256)))
        name = etag(dataset, sample, part, pixels)
        headers = {"ETag": name, "Cache-Control": _FOREVER, "Content-Security-Policy": _DATA_POLICY}
        if request.headers.get("if-none-match") == name:
            return Response(status_code=304, headers=headers)
        address = PartAddress(dataset.address, sample, part)
        async with self._thumbnails.slots:
            if await request.is_disconnected():
                return Response(status_code=204)
            try:
                made = await self._thumbnails.thumbnail(name, address, pixels)
            except PictureError as error:
                raise HTTPException(422, str(error)) from error
        return Response(made, media_type="image/jpeg", headers=headers)

    async def _part(self, request: Request) -> Response:
        dataset, sample = self._sample_of(request)
        name = request.query_params.get("part", "")
        places = {place.name: place for place in await run_in_threadpool(dataset.parts, sample)}
        # Find the range, and describe it in the headers.
        size = places[name].size_bytes
        start, stop, partial = byte_range(request.headers.get("range"), size)
        tag = etag(dataset, sample, name, 0)
        headers = {
            "ETag": tag,
            "Cache-Control": _FOREVER,
            "Accept-Ranges": "bytes",
            "Content-Security-Policy": _DATA_POLICY,
            "Content-Length": str(stop - start),
        }
        if media_type(name) == "application/octet-stream":
            headers["Content-Disposition"] = "attachment"
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={**headers, "Content-Length": "0"})
        if partial:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"

        # Answer with the bytes, in pieces if there are many.
        async def pieces() -> AsyncIterator[bytes]:
            for begin in range(start, stop, MAX_RANGE_BYTES):
                yield await run_in_threadpool(dataset.read, sample, name, begin, min(stop, begin + MAX_RANGE_BYTES))

        if stop - start <= MAX_RANGE_BYTES:  # an error of the only read has a status of its own
            data = await run_in_threadpool(dataset.read, sample, name, start, stop)
            return Response(data, 206 if partial else 200, headers, media_type(name))
        return StreamingResponse(pieces(), 206 if partial else 200, headers, media_type(name))

    # ----------------------------------------------------------------------------------------------- many samples

    async def _describe(self, _request: Request) -> Response:
        def describe() -> dict[str, Any]:
            datasets = [
                {
                    "name": each.name,
                    "path": each.folder.path,
                    "samples": len(SampleOrder(ranges=each.ranges())),
                    "weight": each.weight,
                    "split_part": each.split_part,
                    "place": each.place,
                }
                for each in self._catalogue.datasets
            ]
            trees = [asdict(tree) for tree in self._catalogue.trees]
            return {"datasets": datasets, "trees": trees, "edit": self._edit}

        return json_answer(await run_in_threadpool(describe))

    async def _facets(self, request: Request) -> Response:
        dataset = self._dataset_of(request)

        def describe() -> dict[str, Any]:
            return {
                "split_parts": dataset.split_parts,
                "shards": list(dataset.shards)[:_MAX_SHARDS],
                "tags": tags(dataset.folder),
            }

        return json_answer(await run_in_threadpool(describe))

    async def _rows(self, request: Request) -> Response:
        dataset, start = self._dataset_of(request), integer(request, "start", 0)
        count = min(_MAX_ROWS, integer(request, "count", 100))
        query = request.query_params
        seed = integer(request, "seed", 0) % _MAX_SEED if "seed" in query else None
        where, facets = query.get("where"), _facets(query)

        def read() -> dict[str, Any]:
            if where and needs_scan(dataset.folder, where):
                return {"scan": True}  # the page then searches
            ranges = self._chosen(dataset, where, **facets) if where else dataset.ranges(**facets)
            order = SampleOrder(ranges=ranges, seed=seed)
            numbers = ordered_samples(order, start, start + count).tolist()
            rows = [row_document(dataset, sample, request.path_params["dataset"]) for sample in numbers]
            return {"total": len(order), "start": start, "rows": rows}

        return json_answer(await run_in_threadpool(read))

    async def _training(self, request: Request) -> Response:
        start, count = integer(request, "start", 0), min(_MAX_ROWS, integer(request, "count", 100))
        # Read the arguments of the run.
        paths = self._catalogue.refs
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
        # Check that the step is one of a run, whose order is computed in 64 bits.
        order = TrainingOrder(request=run, step=integer(request, "step", 0), rank=rank)
        if len(order) + order.step * run.world_size * (run.batch_size or 1) >= _MAX_SAMPLE:
            raise HTTPException(400, "expected the step of a run, found a number beyond any run")
        # Compute the samples in a worker process, and describe them.
        rows = await self._in_worker(training_rows, order, start, start + count)

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
        dataset_number = self._catalogue.dataset_of(path)
        shard, slash, bare = key.partition("/")
        if dataset_number is not None and slash:
            dataset = self._catalogue.datasets[dataset_number]
            sample = dataset.find(shard, bare)
            if sample is not None:
                return row_document(dataset, sample, dataset_number)
        return {"d": None, "n": None, "shard": path, "key": key, "picture": None, "excluded": False}

    async def _search(self, request: Request) -> Response:
        dataset, query = self._dataset_of(request), request.query_params
        # Read what to search, and where.
        kind = next((kind for kind in SEARCH_KINDS if kind == query.get("in", "keys")), None)
        if kind is None:
            raise HTTPException(400, f"expected in to be one of {', '.join(SEARCH_KINDS)}")
        search = SearchRequest(
            text=query.get("text", ""),
            kind=kind,
            ranges=await run_in_threadpool(partial(dataset.ranges, **_facets(query))),
        )
        # Search until the first result: an error until then has a status of its own.
        loop = asyncio.get_running_loop()
        submit = lambda *call: asyncio.run_coroutine_threadsafe(self._in_worker(*call), loop)  # noqa: E731
        batches = search_samples(dataset, search, submit)
        try:
            first = await run_in_threadpool(next, batches, None)  # before the answer begins: it has a status of its own
        except WorkerError as error:
            raise HTTPException(422, _KILLED) from error

        # Answer with a line of JSON for each batch, until the page goes away.
        def line(batch: Any) -> str:
            dataset_number = request.path_params["dataset"]
            rows = [
                {**row_document(dataset, sample, dataset_number), "note": batch.notes.get(sample)}
                for sample in batch.found
            ]
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
            except EnergonError as error:
                yield json.dumps({"fault": _KILLED if isinstance(error, WorkerError) else str(error)}) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _statistics(self, request: Request) -> Response:
        dataset = self._dataset_of(request)
        split_part = request.query_params.get("split_part") or dataset.split_part
        sample = min(_MAX_SAMPLED, integer(request, "sample", 5000))
        document = await self._in_worker(statistics, dataset.ref, split_part, sample)
        return json_answer(document, headers={"Cache-Control": "private, max-age=300"})

    async def _find(self, request: Request) -> Response:
        query = request.query_params
        dataset = self._dataset_of(request)
        sample = await run_in_threadpool(dataset.find, query.get("shard", ""), query.get("key", ""))
        if sample is None:
            raise HTTPException(404, "there is no such sample")
        return json_answer({"number": sample})

    # ------------------------------------------------------------------------------------------------------ edits

    async def _exclude(self, request: Request) -> Response:
        dataset, keys, _ = await self._selection(request)
        request_of_keys = ExcludeRequest(ref=dataset.ref, query=SampleQuery(keys=keys), reason="energon browse")
        [report] = await run_in_threadpool(exclude, request_of_keys)
        await run_in_threadpool(dataset.reopen)
        self._chosen.cache_clear()
        return json_answer({"samples": report.samples, "already": report.already, "file": report.file})

    async def _tag(self, request: Request) -> Response:
        dataset, keys, tag = await self._selection(request)

        def write() -> int:
            return tag_samples(dataset.folder, find_samples(dataset.folder, SampleQuery(keys=keys)).tolist(), tag)

        samples = await run_in_threadpool(write)
        self._chosen.cache_clear()
        return json_answer({"samples": samples, "tag": tag})

    async def _selection(self, request: Request) -> tuple[BrowsedDataset, list[str], str]:
        if not self._edit:
            raise HTTPException(403, "this server is read-only; start it with --edit")
        dataset = self._dataset_of(request)
        dataset.check_editable()
        return dataset, *await selection_of(request)

    # ------------------------------------------------------------------------- what the routes share

    async def _in_worker(self, function: Callable[..., _T], *args: Any) -> _T:
        """Run a function in a worker process."""
        async with self._readers.slots:
            return await self._readers.call(function, *args)

    def _dataset_of(self, request: Request) -> BrowsedDataset:
        dataset_number: int = request.path_params["dataset"]
        if min(dataset_number, request.path_params.get("number", 0)) < 0:
            raise HTTPException(400, "expected the numbers of a dataset and a sample")
        if dataset_number >= len(self._catalogue.datasets):
            raise HTTPException(404, "there is no such dataset")
        dataset = self._catalogue.datasets[dataset_number]
        if dataset.refresh():
            self._chosen.cache_clear()
        return dataset

    def _sample_of(self, request: Request) -> tuple[BrowsedDataset, int]:
        """Return the dataset and sample number of a request's path, if the page shows the present version."""
        dataset, sample = self._dataset_of(request), request.path_params["number"]
        if request.query_params.get("v", dataset.version) != dataset.version:
            raise HTTPException(410, "the dataset was prepared again; load the page again")
        if sample >= len(dataset):
            raise HTTPException(404, "there is no such sample")
        return dataset, sample


def _facets(query: Mapping[str, str]) -> dict[str, str | None]:
    return {"split_part": query.get("split_part"), "shard": query.get("shard")}
