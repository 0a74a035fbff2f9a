"""Connect to a Ray cluster, and say why it is not possible; check that a server is the head of a cluster."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..errors import WorkerError

CONTINUES = "start the cluster again; the same command continues where it stopped"

_CONNECT_S = 15  # a cluster answers at once, unless its machine is busy
_GRPC_START = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"  # preface of a client and empty settings
_GRPC_ANSWER = rb"...\x04"  # the settings of the server


def check_server(address: str, expected: bytes, *, sent: bytes = b"") -> None:
    """Raise a ConnectionError if another program listens at an address: clients of clusters would wait without end.

    Args:
        address: Ends with ``host:port``; others are not checked.
        expected: Regular expression of the first bytes of the answer.
        sent: What the server answers.
    """
    if named := re.search(r"([^\s/:]+):(\d+)$", address):
        with socket.create_connection((named[1], int(named[2])), _CONNECT_S) as connection, suppress(OSError):
            connection.sendall(sent)
            if re.match(expected, connection.recv(1024), re.DOTALL):
                return
        raise ConnectionError("another program answers at this address, or a cluster that requires TLS")


def connect(ray: Any, address: str) -> None:
    """Connect to a Ray cluster, or start one on this machine.

    Raises:
        WorkerError: There is no cluster at the address, or it asks for another token, or Ray Client is not installed.
    """
    # Check what answers at the address, then connect.
    hint = "start one: ray start --head; or leave out --address and RAY_ADDRESS, which starts Ray on this machine"
    try:
        with _no_stderr():
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                check_server(address, _GRPC_ANSWER, sent=_GRPC_START)
            if "RAY_AUTH_MODE" not in os.environ:  # else Ray ends the process if there is no token
                _check_head(ray, address)
            try:
                ray.init(
                    address=address or "local",  # else Ray joins any cluster that runs on this machine
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level="error",
                    configure_logging=False,
                )
            except ConnectionError as error:
                _check_head(ray, str(error))  # it names the server of "auto"
                raise
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        # Name the cause.
        what = f"cannot connect to the Ray cluster: {' '.join(str(error).split())}"
        if isinstance(error, ray.exceptions.AuthenticationError):
            what = "the Ray cluster asks for a token, and this command has none, or another one"
            hint = "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH if the token is not in ~/.ray/auth_token"
        elif isinstance(error, ray.exceptions.RpcError):
            what = "this is not the port of a head of Ray, such as 6379; for Ray Client, expected ray://host:10001"
        elif "ray[client]" in what:
            hint = "pip install 'ray[client]'"
        raise WorkerError(what, at=address, hint=hint) from error


def _check_head(ray: Any, text: str) -> None:
    """Raise the answer of a head whose address ends a text, if it is an error, which ray.init would not tell."""
    if named := re.search(r"(?:^|\s)([^\s/:]+:\d+)$", text):
        ray._raylet.GcsClient(address=named[1])  # noqa: SLF001 - as above


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Discard what this process writes to stderr, where Ray repeats errors that it raises later."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as discarded:
        os.dup2(discarded.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
