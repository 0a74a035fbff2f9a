"""A hub for tests: it speaks what the client ``huggingface_hub`` calls, with planned faults and a log of requests.

::

    with hub_server() as hub:  # HF_ENDPOINT=hub.url
        repository = hub.create("datasets", "owner/name")
        commit = repository.commit({"README.md": b"# Cats", "train/0000.tar": Path("0000.tar")})
        ...
        assert hub.count(kind="resolver") == 1
"""

from .faults import Fault, FaultPlan
from .limits import PLANS
from .server import HubServer, User, hub_server

__all__ = ["PLANS", "Fault", "FaultPlan", "HubServer", "User", "hub_server"]
