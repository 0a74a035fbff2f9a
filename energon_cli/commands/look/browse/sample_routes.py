"""Routes of one sample: its page, its parts and their thumbnails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from loader.dataset.query import SampleQuery, find_samples
from loader.inspect import ExcludeRequest, exclude
from loader.inspect.browse import (
    BrowsedDataset,
    PartAddress,
    describe_tensors,
    lint_samples,
    mapped_document,
    media_type,
    sample_page,
    tag_samples,
)
from loader.samples import PictureError

from .requests import MAX_RANGE_BYTES, Served, byte_range, etag, integer, json_answer, selection_of

_THUMBNAIL_PIXELS = (128, 256, 512, 1024)
_FOREVER = "private, max-age=31536000, immutable"
_DATA_POLICY = "default-src 'none'; sandbox"


class SampleRoutes:
    """Answers to requests about one sample."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._thumbnails = asyncio.Semaphore(served.thumbnails.max_running)

    def routes(self) -> list[Route]:
        """Return the routes."""
        sample = "/api/d/{dataset:number}/{number:number}"
        return [
            Route(f"{sample}/thumbnail", self._thumbnail),
            Route(f"{sample}/part", self._part),
            Route(sample, self._sample),
            Route(f"{sample}/mapped", self._mapped),
            Route(f"{sample}/findings", self._findings),
            Route(f"{sample}/tensors", self._tensors),
        ]

    async def _sample(self, request: Request) -> Response:
        dataset, number = self._served.sample(request)
        return await run_in_threadpool(lambda: json_answer(sample_page(dataset, number)))

    async def _mapped(self, request: Request) -> Response:
        dataset, number = self._served.sample(request)
        row = await run_in_threadpool(dataset.row, number)
        return json_answer(await self._served.in_worker(mapped_document, dataset.ref, f"{row.shard}/{row.key}"))

    async def _findings(self, request: Request) -> Response:
        dataset, number = self._served.sample(request)
        found = await self._served.in_worker(lint_samples, dataset.address, [number])
        return json_answer([{"code": one.code, "part": one.part, "message": one.message} for one in found])

    async def _tensors(self, request: Request) -> Response:
        dataset, number = self._served.sample(request)
        name = request.query_params.get("part", "")
        part = next((one for one in await run_in_threadpool(dataset.parts, number) if one.name == name), None)
        if part is None:
            raise KeyError(name)
        return json_answer(await self._served.in_worker(describe_tensors, PartAddress(dataset.address, number, name)))

    async def _thumbnail(self, request: Request) -> Response:
        dataset, number = self._served.sample(request)
        part = request.query_params.get("part", "")
        pixels = min(_THUMBNAIL_PIXELS, key=lambda one: abs(one - integer(request, "pixels", 256)))
        name = etag(dataset, number, part, pixels)
        headers = {"ETag": name, "Cache-Control": _FOREVER, "Content-Security-Policy": _DATA_POLICY}
        if request.headers.get("if-none-match") == name:
            return Response(status_code=304, headers=headers)
        place = PartAddress(dataset.address, number, part)
        async with self._thumbnails:
            if await request.is_disconnected():
                return Response(status_code=204)
            try:
                made = await self._served.thumbnails.thumbnail(name, place, pixels)
            except PictureError as error:
                raise HTTPException(422, str(error)) from error
        return Response(made, media_type="image/jpeg", headers=headers)

    async def _part(self, request: Request) -> Response:
        dataset, number = self._served.sample(request)
        name = request.query_params.get("part", "")
        places = {place.name: place for place in await run_in_threadpool(dataset.parts, number)}
        size = places[name].size_bytes
        start, stop, partial = byte_range(request.headers.get("range"), size)
        tag = etag(dataset, number, name, 0)
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

        async def pieces() -> AsyncIterator[bytes]:
            for place in range(start, stop, MAX_RANGE_BYTES):
                yield await run_in_threadpool(dataset.read, number, name, place, min(stop, place + MAX_RANGE_BYTES))

        if stop - start <= MAX_RANGE_BYTES:  # an error of the only read has a status of its own
            data = await run_in_threadpool(dataset.read, number, name, start, stop)
            return Response(data, 206 if partial else 200, headers, media_type(name))
        return StreamingResponse(pieces(), 206 if partial else 200, headers, media_type(name))


class EditRoutes:
    """Answers to requests that change a dataset; refused unless the server was started for edits."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/d/{dataset:number}/exclude", self._exclude, methods=["POST"]),
            Route("/api/d/{dataset:number}/tag", self._tag, methods=["POST"]),
        ]

    async def _exclude(self, request: Request) -> Response:
        dataset, keys, _ = await self._selection(request)
        request_of_keys = ExcludeRequest(ref=dataset.ref, query=SampleQuery(keys=keys), reason="energon browse")
        [report] = await run_in_threadpool(exclude, request_of_keys)
        await run_in_threadpool(dataset.reopen)
        self._served.chosen.cache_clear()
        return json_answer({"samples": report.samples, "already": report.already, "file": report.file})

    async def _tag(self, request: Request) -> Response:
        dataset, keys, tag = await self._selection(request)

        def write() -> int:
            numbers = find_samples(dataset.folder, SampleQuery(keys=keys))
            return tag_samples(dataset.folder, numbers.tolist(), tag)

        samples = await run_in_threadpool(write)
        self._served.chosen.cache_clear()
        return json_answer({"samples": samples, "tag": tag})

    async def _selection(self, request: Request) -> tuple[BrowsedDataset, list[str], str]:
        if not self._served.edit:
            raise HTTPException(403, "this server is read-only; start it with --edit")
        dataset = self._served.dataset(request)
        dataset.check_editable()
        return dataset, *await selection_of(request)
