"""The web application: pages, and routes to the values of ``loader.inspect.browse``."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from loader.errors import EnergonError

from .dataset_routes import DatasetRoutes
from .edit_routes import EditRoutes
from .requests import MAX_DIGITS, answer_error, answer_missing
from .sample_routes import SampleRoutes
from .served import Served

_STATIC = Path(__file__).parent / "static"


class _AnyPath(Convertor[str]):
    """The rest of a path; unlike that of Starlette also with line ends, which keys may contain."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _Number(Convertor[int]):
    """A number; -1 for one that no dataset or sample has: negative, with a point, or of more than 18 digits."""

    regex = "[-+.0-9][^/]*"

    def convert(self, value: str) -> int:
        return int(value) if value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS else -1

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("any", _AnyPath())
register_url_convertor("number", _Number())


def make_application(served: Served) -> Starlette:
    """Return the application, without its guard."""
    routes = [
        *SampleRoutes(served).routes(),
        *DatasetRoutes(served).routes(),
        *EditRoutes(served).routes(),
        *(Route(path, _page) for path in ("/", "/datasets", "/stats/{rest:any}", "/s/{rest:any}")),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    return Starlette(routes=routes, exception_handlers={EnergonError: answer_error, KeyError: answer_missing})


async def _page(_request: Request) -> Response:
    return FileResponse(_STATIC / "index.html", headers={"Cache-Control": "no-cache"})
