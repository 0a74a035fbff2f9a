"""Serve the pages of datasets until a signal ends it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable

import uvicorn

from loader.inspect.browse import Catalogue, ReaderPool, ThumbnailPool

from .app import make_application
from .security import Guard
from .served import Served


def serve_pages(
    catalogue: Catalogue,
    listener: socket.socket,
    *,
    host: str,
    token: str,
    edit: bool,
    on_start: Callable[[], None],
) -> None:
    """Serve pages until Ctrl-C or SIGTERM, then end the worker processes.

    Args:
        catalogue: The datasets.
        listener: A socket that listens.
        host: The address that the caller named; requests to other hosts are refused.
        token: Secret of the URL; requests without it are refused.
        edit: Allow to exclude and tag samples.
        on_start: Called once pages are served.
    """
    thumbnails = ThumbnailPool(workers=max(1, min(8, len(os.sched_getaffinity(0)))))
    readers = ReaderPool(workers=2)
    served = Served(catalogue, thumbnails=thumbnails, readers=readers, edit=edit)
    app = Guard(make_application(served), token=token, host=host, port=listener.getsockname()[1])

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_start()
            thumbnails.start()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # cancelled requests are no errors
            await super().shutdown(sockets)
            thumbnails.close()
            readers.close()

    config = uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=1, server_header=False)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises its signal again: worker processes must end
    try:
        Server(config).run([listener])
    finally:
        readers.close()
