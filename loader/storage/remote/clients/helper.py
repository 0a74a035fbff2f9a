"""The helper process: sends the requests of a process that may fork."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

from ....errors import EnergonError, StorageError
from ..failures import RequestFailure
from ..object_url import ObjectUrl, redact_urls
from ..options import StorageOptions
from .choice import connection_of, use_rust_here
from .connection import ClientObject, ObjectClient
from .helper_client import read_message, write_message

_THREADS = 64  # requests at a time, of all buckets together


class _Server:
    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers
        self.writing = threading.Lock()
        self._listings: dict[int, Iterator[Sequence[ClientObject]]] = {}
        self.unanswered = 0

    def serve(self, request: tuple[int, ObjectUrl, StorageOptions, str, Sequence[Any], Mapping[str, Any]]) -> None:
        call_number, url, options, method, arguments, keywords = request
        try:
            answer = self._result(connection_of(url, options).client, method, *arguments, **keywords)
        except (RequestFailure, EnergonError) as error:
            answer = error
        except BaseException as error:  # noqa: BLE001 - the parent raises it; a panic of obstore is no Exception
            cause = redact_urls(f"{type(error).__name__}: {error}")
            answer = StorageError(f"the helper process failed: {cause}", path=str(url))
        with self.writing:
            write_message(self._answers, (call_number, answer))
            self.unanswered -= 1

    def _result(self, client: ObjectClient, method: str, *arguments: Any, **keywords: Any) -> Any:
        match method:
            case "begin pages":
                listing, prefix = arguments
                self._listings[listing] = iter(client.pages(prefix))
            case "next page":  # one page for each message
                page = next(self._listings[arguments[0]], None)
                if page is None:
                    del self._listings[arguments[0]]
                return page
            case "end pages":
                self._listings.pop(arguments[0], None)
            case _:
                return getattr(client, method)(*arguments, **keywords)
        return None


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
            request = read_message(requests)
        except EOFError:
            while server.unanswered and os.getppid() == parent:  # it may have started another helper
                time.sleep(0.05)
            os._exit(0)
        with server.writing:
            server.unanswered += 1  # before it is served
        threads.submit(server.serve, request)
