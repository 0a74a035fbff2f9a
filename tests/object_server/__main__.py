"""``python -m tests.object_server FOLDER [--port N] [--latency SECONDS]``: serve a folder until standard input ends.

Lines of standard input are commands. ``count`` prints the number of requests and of sent bytes, ``counts`` the number
of requests and of each fault as JSON; ``plan JSON`` sets the fields of a fault plan, and prints a line.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from .faults import FaultPlan
from .server import ObjectServer

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--latency", type=float, default=0.0)
arguments = parser.parse_args()
with ObjectServer(arguments.folder, port=arguments.port, faults=FaultPlan(latency_s=arguments.latency)) as server:
    print(server.url, flush=True)
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        if command == "count":
            print(len(server.requests), sum(request.sent_bytes for request in server.requests), flush=True)
        elif command == "counts":
            faults = Counter(request.fault for request in list(server.requests) if request.fault)
            print(json.dumps({"requests": len(server.requests), "faults": faults}), flush=True)
        elif command == "plan":
            server.faults = FaultPlan(**json.loads(rest))
            print("planned", flush=True)
