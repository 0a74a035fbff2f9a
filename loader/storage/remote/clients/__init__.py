"""Clients, which send single requests to a bucket or a server, without retries.

==================== ==========================================
`client.py`          the interface of clients
`choice.py`          the client of a URL in this process
`connection.py`      a client with its pace and its retries
`obstore_client.py`  requests by obstore: S3, GCS, Azure
`stores.py`          the stores of obstore, and their settings
`msc_client.py`      profiles of multi-storage-client
`http_client.py`     requests to web servers
`limited_answer.py`  their answers, read within limits of time and bytes
`addresses.py`       the addresses of hosts, of which some may be refused
`fork_lock.py`       a lock that forks wait for
`helper_client.py`   requests sent through a helper process
`helper.py`          the helper process
`messages.py`        messages between a process and its helper
==================== ==========================================
"""

from .choice import (
    connection_of,
    fetcher_of,
    has_answered,
    may_fork,
    may_use_rust,
    note_answer,
    use_rust_here,
)
from .client import ClientObject, ObjectClient, Received
from .connection import Connection

__all__ = [
    "ClientObject",
    "Connection",
    "ObjectClient",
    "Received",
    "connection_of",
    "fetcher_of",
    "has_answered",
    "may_fork",
    "may_use_rust",
    "note_answer",
    "use_rust_here",
]
