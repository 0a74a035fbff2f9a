"""The helper process: sends the requests of a process that may fork."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

from ....errors import EnergonError
from ..failures import RequestFailure
from ..object_url import ObjectUrl, redact_urls
from ..options import StorageOptions
from .choice import client_of, use_rust_here
from .client import ObjectClient
from .helper_client import read_message, write_message

_THREADS = 64


class _Server:
    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers
        self._writing = threading.Lock()
        self._listings: dict[int, Iterator[Any]] = {}
        self.unanswered = 0

    def note_request(self) -> None:
        """Count a request before it is served."""
        with self._writing:
            self.unanswered += 1

    def serve(self, number: int, url: ObjectUrl, options: StorageOptions, method: str, arguments: Any) -> None:
        answer: tuple[str, Any]
        try:
            answer = ("result", self._result(client_of(url, options), method, arguments))
        except RequestFailure as failure:
            answer = ("failure", (failure.cause, failure.remedy.name, failure.kind, failure.retry_after_s))
        except EnergonError as error:
            answer = ("error", (error.message, error.at, error.hint))
        except BaseException as error:  # noqa: BLE001 - the parent raises it; a panic of obstore is no Exception
            answer = ("bug", redact_urls(f"{type(error).__name__}: {error}"))
        with self._writing:
            write_message(self._answers, (number, *answer))
            self.unanswered -= 1

    def _result(self, client: ObjectClient, method: str, arguments: Any) -> Any:
        match method:
            case "get" | "get_all":
                received = getattr(client, method)(*arguments)
                return tuple(received)
            case "pages":  # one page for each message
                if arguments[0] is not None:
                    self._listings[arguments[1]] = iter(client.pages(arguments[0]))
                page = next(self._listings[arguments[1]], None)
                if page is None:
                    del self._listings[arguments[1]]
                return None if page is None else [tuple(found) for found in page]
            case "end pages":
                self._listings.pop(arguments[0], None)
                return None
            case "head":
                return tuple(client.head(*arguments))
            case "put":
                key, data, if_absent, if_etag = arguments
                return client.put(key, data, if_absent=if_absent, if_etag=if_etag)
            case "upload" | "delete" | "refresh":
                return getattr(client, method)(*arguments)
        raise ValueError(method)


def main() -> None:
    """Answer requests until the parent has ended."""
    use_rust_here()
    parent = os.getppid()
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # prints of libraries must not get between the answers
    server = _Server(answers)
    threads = ThreadPoolExecutor(_THREADS)
    while True:
        try:
            message = read_message(requests)
        except EOFError:
            while server.unanswered and os.getppid() == parent:  # it may have started another helper
                time.sleep(0.05)
            os._exit(0)
        server.note_request()
        threads.submit(server.serve, *message)
