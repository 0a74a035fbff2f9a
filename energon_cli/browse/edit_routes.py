"""Routes that write to datasets: exclude and tag samples."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from loader.format.query import SampleQuery, find_samples
from loader.inspect.browse import BrowsedDataset, tag_samples
from loader.inspect.exclude import ExcludeRequest, exclude

from .requests import json_answer, selection_of
from .served import Served


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
        report = await run_in_threadpool(
            exclude,
            ExcludeRequest(
                path=dataset.folder.path,
                query=SampleQuery(keys=keys),
                reason="energon browse",
                split_config=dataset.split_config,
                meta_folder=dataset.meta_folder,
            ),
        )
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
