"""The datasets and worker processes that all routes share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from loader.inspect.browse import BrowsedDataset, Catalogue, ReaderPool, ThumbnailPool

_T = TypeVar("_T")


class Served:
    """Holds what is served, and the processes that read it.

    Args:
        catalogue: The datasets.
        thumbnails: Decodes thumbnails.
        readers: Workers for everything else that decodes samples.
        edit: Allow to exclude and tag samples.
    """

    def __init__(self, catalogue: Catalogue, *, thumbnails: ThumbnailPool, readers: ReaderPool, edit: bool) -> None:
        self.catalogue = catalogue
        self.thumbnails = thumbnails
        self.readers = readers
        self.edit = edit
        self.chosen = lru_cache(maxsize=8)(BrowsedDataset.chosen)  # the array of a condition, for its further pages

    async def in_worker(self, function: Callable[..., _T], *args: Any) -> _T:
        """Run a function in a worker process."""
        try:
            return await asyncio.wrap_future(self.readers.submit(function, *args))
        except BrokenProcessPool as error:
            raise HTTPException(422, "the process that read the sample was killed") from error

    def dataset(self, request: Request) -> BrowsedDataset:
        """Return the dataset of a request's path, as it is now."""
        number: int = request.path_params["dataset"]
        if min(number, request.path_params.get("number", 0)) < 0:
            raise HTTPException(400, "expected the numbers of a dataset and a sample")
        if number >= len(self.catalogue.datasets):
            raise HTTPException(404, "there is no such dataset")
        dataset = self.catalogue.datasets[number]
        if dataset.refresh():
            self.chosen.cache_clear()
        return dataset

    def sample(self, request: Request) -> tuple[BrowsedDataset, int]:
        """Return the dataset of a request's path, and the number of its sample, which is that of the page's version."""
        dataset, number = self.dataset(request), request.path_params["number"]
        if request.query_params.get("v", dataset.version) != dataset.version:
            raise HTTPException(410, "the dataset was prepared again; load the page again")
        if number >= len(dataset):
            raise HTTPException(404, "there is no such sample")
        return dataset, number
