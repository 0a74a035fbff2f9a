"""An object server for tests: a subset of S3 over a folder, with planned faults and a log of requests.

::

    with ObjectServer(folder, faults=FaultPlan(seed=1, rates={"503": 0.01})) as server:
        ...  # AWS_ENDPOINT_URL=server.url
        server.requests
"""

from .faults import Fault, FaultPlan
from .server import ObjectServer, Request

__all__ = ["Fault", "FaultPlan", "ObjectServer", "Request"]
