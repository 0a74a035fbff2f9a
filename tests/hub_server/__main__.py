"""``python -m tests.hub_server --repository datasets/owner/name=FOLDER …``: serve folders until standard input ends.

It prints the ``HF_ENDPOINT`` first, then a token for each ``--user``. Lines of standard input are commands, each
answered by one line:

- ``counts``: requests by kind, method and status, and the bytes that were sent, as JSON.
- ``log FILE``: write the requests to a file, as lines of JSON.
- ``plan JSON``: set the fields of the fault plan, in which faults are objects.
- ``again``: forget the requests, the faults and what was used of the limits.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from .faults import Fault, FaultPlan
from .limits import PLANS
from .server import HubServer, hub_server

parser = argparse.ArgumentParser()
parser.add_argument("--repository", action="append", default=[], help="KIND/OWNER/NAME=FOLDER; may be repeated")
parser.add_argument("--user", action="append", default=[], help=f"NAME=PLAN, where PLAN is one of {', '.join(PLANS)}")
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--cdn-port", type=int, default=0)
parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
parser.add_argument("--lifetime", type=float, default=3600.0, help="seconds for which an address is valid")
parser.add_argument("--form", choices=("expires", "amz"), default="expires", help="form of signed addresses")
parser.add_argument("--window", type=float, default=300.0, help="seconds of a window of the rate limits")
parser.add_argument("--no-limits", action="store_true", help="refuse no request")
parser.add_argument("--unhashed", action="store_true", help="name large files without reading them")
parser.add_argument("--xet", action="store_true", help="list large files as stored in Xet, too")


def answer(hub: HubServer, line: str) -> str:
    """Do what a line of standard input asks for."""
    command, _, rest = line.strip().partition(" ")
    log = list(hub.log)
    if command == "counts":
        requests = Counter(f"{request.kind} {request.method} {request.status}" for request in log)
        return json.dumps({"requests": requests, "bytes": sum(request.sent_bytes for request in log)})
    if command == "log":
        Path(rest).write_text("".join(json.dumps(asdict(request)) + "\n" for request in log), encoding="utf-8")
        return str(len(log))
    if command == "plan":
        plan = json.loads(rest)
        hub.faults = FaultPlan(**plan | {"faults": [Fault(**fault) for fault in plan.get("faults", [])]})
        return "planned"
    if command == "again":
        latency_s = hub.faults.latency_s
        hub.start_again()
        hub.faults = FaultPlan(latency_s=latency_s)
        return "again"
    return f"unknown command {command!r}"


arguments = parser.parse_args()
with hub_server(port=arguments.port, cdn_port=arguments.cdn_port) as hub:
    hub.faults = FaultPlan(latency_s=arguments.latency)
    hub.addresses.lifetime_s, hub.addresses.form = arguments.lifetime, arguments.form
    hub.limits.window_s, hub.limits.is_on = arguments.window, not arguments.no_limits
    for text in arguments.repository:
        name, _, folder = text.partition("=")
        kind, _, name = name.partition("/")
        hub.create(kind, name, xet=arguments.xet).commit(Path(folder), hashed=not arguments.unhashed)
    print(hub.url, flush=True)
    for text in arguments.user:
        name, _, plan = text.partition("=")
        print(hub.add_user(name, plan=plan or "free"), flush=True)
    for line in sys.stdin:
        print(answer(hub, line), flush=True)
