"""Time the import of a table of URLs on hosts that never answer: closed ports, silent listeners, unknown names.

Prints the seconds of the import with ``--max-failures 100%``, which names each row, and with the default.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from socket import socket


def hosts(number: int, stack: ExitStack) -> list[str]:
    """Return hosts, a third of each kind; the silent ones listen until the stack is closed."""
    found = []
    for position in range(number):
        if position % 3 == 2:
            found.append(f"no-host-{position}.invalid")
            continue
        listener = stack.enter_context(socket())
        listener.bind(("127.0.0.1", 0))
        found.append(f"127.0.0.1:{listener.getsockname()[1]}")
        if position % 3 == 1:
            listener.listen(512)  # connections are made, and never answered
    return found


def main() -> None:
    """Run the two imports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--grouped", action="store_true", help="list the rows of a host together")
    args = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-dead-hosts-")))
        dead = hosts(args.hosts, stack)
        share = -(-args.rows // len(dead))
        order = [row // share if args.grouped else row % len(dead) for row in range(args.rows)]
        lines = [f"http://{dead[place]}/{row}.jpg,caption {row}" for row, place in enumerate(order)]
        table = folder / "urls.csv"
        table.write_text("\n".join(["url,caption", *lines, ""]))
        command = [sys.executable, "-m", "energon_cli", "import", str(table), "--yes", "--download", "--allow-private"]
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        for name, options in (("--max-failures 100%", ["--max-failures", "100%"]), ("default", [])):
            output = folder / f"out{len(options)}"
            started = time.perf_counter()
            done = subprocess.run(
                [*command[:5], str(output), *command[5:], *options],
                capture_output=True,
                text=True,
                check=False,
                env=environment,
            )
            seconds = time.perf_counter() - started
            failures = output / ".nv-meta/import_failures.jsonl"
            named = len(failures.read_text().splitlines()) if failures.exists() else 0
            print(f"{name}: {seconds:.1f} s, exit {done.returncode}, {named:,} rows with a reason")
            print(done.stderr.strip())


if __name__ == "__main__":
    main()
