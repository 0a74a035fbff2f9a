"""Copy photographs to a real S3 server, prepare them there and train from it (`make demo-remote`).

usage: python benchmarks/demo_remote.py FOLDER

The server is SeaweedFS, which this script starts and ends.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from demo_photographs import make_dataset
from pseudo_terminal import program_of
from s3_server import ACCESS_KEY, SECRET_KEY, s3_server

BUCKET = "photographs"
TRAINING = Path(__file__).with_name("demo_training.py")


def main(folder: Path) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    make_dataset(folder / "local")
    url = f"s3://{BUCKET}/demo"
    with s3_server(folder / "server", BUCKET) as endpoint:
        os.environ |= {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "ENERGON_CACHE_DIR": str(folder / "cache"),
        }
        print(f"an S3 server runs at {endpoint}")
        upload(folder / "local", url)
        succeeded = (
            run(["energon", "prepare", url, "--yes"])
            and run(["energon", "info", url])
            and run(["energon", "lint", url, "--level", "decode"])
            and run(["energon", "preview", url, "-n", "1"])
            and load(url)
        )
    return 0 if succeeded else 1


def upload(folder: Path, url: str) -> None:
    """Copy all files of a folder to a URL."""
    from loader import EPath

    for path in sorted(folder.rglob("*.tar")):
        target = EPath(url) / path.relative_to(folder).as_posix()
        EPath(path).copy(target)
        print(f"copied {target}")


def load(path: str) -> bool:
    """Print the training script and run it; return True if it succeeded."""
    script = os.path.relpath(TRAINING)
    print(f"\n$ cat {script}\n{TRAINING.read_text(encoding='utf-8').rstrip()}")
    return run(["python", script, path])


def run(command: list[str]) -> bool:
    """Print a command line and run it; return True if it succeeded."""
    print(f"\n$ {shlex.join(command)}", flush=True)
    return subprocess.run([program_of(command[0]), *command[1:]], check=False).returncode == 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
