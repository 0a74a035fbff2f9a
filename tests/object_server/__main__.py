"""``python -m tests.object_server FOLDER [--port N] [--latency SECONDS]``: serve a folder until standard input ends."""

from __future__ import annotations

import argparse
import sys
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
        if line.strip() == "count":
            print(len(server.requests), sum(request.sent_bytes for request in server.requests), flush=True)
