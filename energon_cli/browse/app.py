"""The web application: routes to the values of ``loader.inspect.browse``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from loader.errors import EnergonError
from loader.inspect.browse import (
    BrowsedDataset,
    BrowseRequest,
    DecodePool,
    Row,
    SampleOrder,
    SearchRequest,
    mapped_document,
    media_type,
    ordered_samples,
    sample_page,
    search_samples,
)

__all__ = ["Pages"]

_STATIC = Path(__file__).parent / "static"
_MAX_ROWS = 500
_MAX_SEED = 2**63
_THUMBNAIL_PIXELS = (128, 256, 512, 1024)
_FOREVER = "private, max-age=31536000, immutable"
_MAX_RANGE_BYTES = 8 << 20  # of one answer to a request for a range
_MAX_BODY_BYTES = 4 << 20
_DATA_POLICY = "default-src 'none'; sandbox"


class _AnyPath(Convertor[str]):
    """The rest of a path; unlike that of Starlette also with line ends, which keys may contain."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any", _AnyPath())


class Pages:
    """The routes, and what they share.

    Args:
        datasets: The catalogue.
        request: What the catalogue was opened with.
        pool: Decodes pictures and samples.
        edit: Allow to exclude samples.
    """

    def __init__(
        self, datasets: Sequence[BrowsedDataset], request: BrowseRequest, *, pool: DecodePool, edit: bool
    ) -> None:
        self._datasets = datasets
        self._request = request
        self._pool = pool
        self._edit = edit

    def application(self) -> Starlette:
        """Return the application, without its guard."""
        routes = [
            Route("/", self._page),
            Route("/s/{rest:any}", self._page),
            Mount("/static", StaticFiles(directory=_STATIC)),
            Route("/api/catalogue", self._catalogue),
            Route("/api/d/{dataset:int}/rows", self._rows),
            Route("/api/d/{dataset:int}/search", self._search),
            Route("/api/d/{dataset:int}/find", self._find),
            Route("/api/d/{dataset:int}/exclude", self._exclude, methods=["POST"]),
            Route("/api/d/{dataset:int}/{number:int}", self._sample),
            Route("/api/d/{dataset:int}/{number:int}/mapped", self._mapped),
            Route("/api/d/{dataset:int}/{number:int}/thumbnail", self._thumbnail),
            Route("/api/d/{dataset:int}/{number:int}/part", self._part),
        ]
        return Starlette(routes=routes, exception_handlers={EnergonError: _fault, KeyError: _missing})

    async def _page(self, _request: Request) -> Response:
        return FileResponse(_STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    async def _catalogue(self, _request: Request) -> Response:
        return _json({"datasets": await run_in_threadpool(self._describe), "edit": self._edit})

    def _describe(self) -> list[dict[str, Any]]:
        return [
            {
                "name": one.name,
                "path": one.folder.path,
                "samples": len(SampleOrder(ranges=one.ranges())),
                "shards": list(one.shards)[:10_000],
                "split_parts": one.split_parts,
                "weight": one.weight,
                "split_part": one.split_part,
                "place": one.place,
            }
            for one in self._datasets
        ]

    async def _rows(self, request: Request) -> Response:
        dataset, start = self._dataset(request), _integer(request, "start", 0)
        count = min(_MAX_ROWS, _integer(request, "count", 100))
        seed = _integer(request, "seed", 0) % _MAX_SEED if "seed" in request.query_params else None

        def read() -> dict[str, Any]:
            order = SampleOrder(ranges=_ranges(dataset, request), seed=seed)
            numbers = ordered_samples(order, start, start + count).tolist()
            return {"total": len(order), "start": start, "rows": [_row(dataset.row(number)) for number in numbers]}

        return _json(await run_in_threadpool(read))

    async def _search(self, request: Request) -> Response:
        dataset = self._dataset(request)
        search = SearchRequest(
            text=request.query_params.get("text", ""),
            in_texts=request.query_params.get("in") == "texts",
            ranges=await run_in_threadpool(_ranges, dataset, request),
        )

        async def lines() -> AsyncIterator[str]:
            async for batch in iterate_in_threadpool(search_samples(dataset, search)):
                if await request.is_disconnected():
                    return
                rows = await run_in_threadpool(lambda found: [_row(dataset.row(one)) for one in found], batch.found)
                yield json.dumps({"rows": rows, "searched": batch.searched}) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _find(self, request: Request) -> Response:
        query = request.query_params
        dataset = self._dataset(request)
        number = await run_in_threadpool(dataset.find, query.get("shard", ""), query.get("key", ""))
        if number is None:
            raise HTTPException(404, "there is no such sample")
        return _json({"number": number})

    async def _sample(self, request: Request) -> Response:
        dataset, number = self._sample_of(request)
        return _json(await run_in_threadpool(sample_page, dataset, number))

    async def _mapped(self, request: Request) -> Response:
        dataset, number = self._sample_of(request)
        row = await run_in_threadpool(dataset.row, number)
        key = f"{row.shard}/{row.key}"
        names = (self._request.split_config, self._request.meta_folder)
        return _json(await run_in_threadpool(self._pool.run, mapped_document, dataset.folder.path, key, *names))

    async def _thumbnail(self, request: Request) -> Response:
        from loader.inspect import PictureError

        dataset, number = self._sample_of(request)
        part = request.query_params.get("part", "")
        pixels = min(_THUMBNAIL_PIXELS, key=lambda one: abs(one - _integer(request, "pixels", 256)))
        etag = await run_in_threadpool(_etag, dataset, number, part, pixels)
        headers = {"ETag": etag, "Cache-Control": _FOREVER, "Content-Security-Policy": _DATA_POLICY}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        try:
            made = await run_in_threadpool(self._pool.thumbnail, etag, lambda: dataset.read(number, part), pixels)
        except PictureError as error:
            raise HTTPException(422, str(error)) from error
        return Response(made, media_type="image/jpeg", headers=headers)

    async def _part(self, request: Request) -> Response:
        dataset, number = self._sample_of(request)
        name = request.query_params.get("part", "")
        places = {place.name: place for place in await run_in_threadpool(dataset.parts, number)}
        size = places[name].size_bytes
        start, stop, partial = _range(request.headers.get("range"), size)
        etag = await run_in_threadpool(_etag, dataset, number, name, 0)
        headers = {
            "ETag": etag,
            "Cache-Control": _FOREVER,
            "Accept-Ranges": "bytes",
            "Content-Security-Policy": _DATA_POLICY,
        }
        if media_type(name) == "application/octet-stream":
            headers["Content-Disposition"] = "attachment"
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        data = await run_in_threadpool(dataset.read, number, name, start, stop)
        if partial:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        return Response(data, 206 if partial else 200, media_type=media_type(name), headers=headers)

    async def _exclude(self, request: Request) -> Response:
        from loader.inspect.exclude import ExcludeRequest, exclude
        from loader.inspect.query import SampleQuery

        if not self._edit:
            raise HTTPException(403, "this server is read-only; start it with --edit")
        dataset = self._dataset(request)
        if int(request.headers.get("content-length", _MAX_BODY_BYTES + 1)) > _MAX_BODY_BYTES:
            raise HTTPException(413, "the list of keys is too long")
        keys = _keys(await request.body())
        report = await run_in_threadpool(
            exclude,
            ExcludeRequest(
                path=dataset.folder.path,
                query=SampleQuery(keys=keys),
                reason="energon browse",
                split_config=self._request.split_config,
                meta_folder=self._request.meta_folder,
            ),
        )
        await run_in_threadpool(dataset.reopen)
        return _json({"samples": report.samples, "already": report.already, "file": report.file})

    def _dataset(self, request: Request) -> BrowsedDataset:
        number: int = request.path_params["dataset"]
        if number >= len(self._datasets):
            raise HTTPException(404, "there is no such dataset")
        return self._datasets[number]

    def _sample_of(self, request: Request) -> tuple[BrowsedDataset, int]:
        dataset, number = self._dataset(request), request.path_params["number"]
        if number >= len(dataset):
            raise HTTPException(404, "there is no such sample")
        return dataset, number


def _ranges(dataset: BrowsedDataset, request: Request) -> Sequence[range]:
    query = request.query_params
    return dataset.ranges(split_part=query.get("split_part"), shard=query.get("shard"))


def _row(row: Row) -> dict[str, Any]:
    return {"n": row.number, "shard": row.shard, "key": row.key, "picture": row.picture, "excluded": row.excluded}


def _integer(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise HTTPException(400, f"expected {name} to be a number")
    return int(text)


def _etag(dataset: BrowsedDataset, number: int, part: str, pixels: int) -> str:
    """Return a name of a part's bytes: that of its shard's version, and its place in it."""
    import hashlib

    shard = dataset.folder.index.shard_of(number)
    place = (dataset.folder.path, shard.name, shard.mtime_ns, shard.size_bytes, number, part, pixels)
    return f'"{hashlib.sha256(repr(place).encode()).hexdigest()[:32]}"'


def _range(header: str | None, size: int) -> tuple[int, int, bool]:
    """Return start and stop of a request for one range of bytes, and True if it asks for one.

    >>> _range("bytes=2-5", 10), _range("bytes=-3", 10), _range(None, 10)
    ((2, 6, True), (7, 10, True), (0, 10, False))
    """
    if header is None or not header.startswith("bytes=") or "," in header:
        return 0, size, False
    first, _, last = header.removeprefix("bytes=").strip().partition("-")
    if not all(not one or (one.isascii() and one.isdigit() and len(one) < 19) for one in (first, last)):
        return 0, size, False
    if not first:
        start, stop = max(0, size - int(last or 0)), size
    else:
        start, stop = int(first), min(size, int(last) + 1 if last else size)
    if start >= stop:
        raise HTTPException(416, "no bytes in this range", headers={"Content-Range": f"bytes */{size}"})
    return start, min(stop, start + _MAX_RANGE_BYTES), True


def _keys(body: bytes) -> list[str]:
    try:
        keys = json.loads(body)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise HTTPException(400, "expected a JSON object with keys") from error
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
        raise HTTPException(400, "expected a list of keys")
    return keys


def _json(value: Any, status: int = 200) -> Response:
    # ASCII: keys that are not UTF-8 contain lone surrogates.
    return Response(json.dumps(value), status, media_type="application/json")


async def _fault(_request: Request, error: Exception) -> Response:
    return _json({"fault": str(error)}, 422)


async def _missing(_request: Request, error: Exception) -> Response:
    return _json({"fault": f"there is no part {error}"}, 404)
