"""A store of Xet in a folder: hf-xet writes and reads it itself, at the address ``local://FOLDER``.

hf-xet runs in programs of their own here: it has threads, and the process of a test must be able to fork.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

__all__ = ["XetStore"]

# Reads a task as JSON: of uploading, paths, and prints their hashes; of downloading, pairs of hash, size and path.
_PROGRAM = """
import json, sys
import hf_xet
task = json.load(sys.stdin)
session = hf_xet.XetSession()
access = {"endpoint": task["endpoint"], "token": "none", "token_expiry_unix_secs": 1 << 40}
if "upload" in task:
    with session.new_upload_commit(**access) as commit:
        uploads = [commit.start_upload_file(path, sha256=hf_xet.COMPUTE_SHA256) for path in task["upload"]]
    print(json.dumps([upload.result().xet_info.hash for upload in uploads]))
else:
    with session.new_file_download_group(**access) as group:
        for hash, size, path in task["download"]:
            group.start_download_file(hf_xet.XetFileInfo(hash, size), path)
"""

# A shard (.mdb) begins with a header of 48 bytes. Then come the files: a header with the file's hash, flags and number
# of segments; a record for each segment; where the flags say so, as many records to verify them; and one with the
# SHA-256. Each has 48 bytes, and a header with a hash of 0xff bytes ends the files.
_RECORD = 48
_DATABASE = "global_dedup_lookup.redb"  # which shard has a file
_HAS_VERIFICATION, _HAS_SHA256 = 1 << 31, 1 << 30


class XetStore:
    """A store of Xet.

    Args:
        folder: Where the store is; made when it is missing. Only one program at a time can write to it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.url = f"local://{folder}"
        self._folder = folder / "xet/xorbs"
        self._files = folder / "files"  # as the bridge sends them, by SHA-256

    def put(self, paths: Sequence[Path]) -> list[str]:
        """Store files; returns their hashes in Xet."""
        hashes: list[str] = json.loads(_run({"endpoint": self.url, "upload": [str(path) for path in paths]}))
        return hashes

    def put_bytes(self, data: bytes) -> str:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return self.put([Path(file.name)])[0]

    def get(self, sizes: Mapping[str, int]) -> dict[str, tuple[Path, str]]:
        """Return the file and the hash in Xet of each SHA-256 that the store has.

        The store is read through links in another folder, since a client that writes to it has locked its database.

        Args:
            sizes: Sizes of the files by SHA-256.
        """
        hashes = {sha256: hash_ for sha256, hash_ in self._hashes() if sha256 in sizes}
        self._files.mkdir(exist_ok=True)
        missing = {sha256: hash_ for sha256, hash_ in hashes.items() if not (self._files / sha256).exists()}
        if missing:
            with tempfile.TemporaryDirectory(dir=self._files) as folder:
                linked = Path(folder) / "xet/xorbs"
                shutil.copytree(self._folder / "xorbs", linked / "xorbs", copy_function=os.link)
                shutil.copytree(self._folder / "shards", linked / "shards", copy_function=os.link)
                shutil.copy(self._folder / _DATABASE, linked / _DATABASE)
                parts = {sha256: Path(folder) / sha256 for sha256 in missing}
                wanted = [(hash_, sizes[sha256], str(parts[sha256])) for sha256, hash_ in missing.items()]
                _run({"endpoint": f"local://{folder}", "download": wanted})
                for sha256, part in parts.items():
                    os.rename(part, self._files / sha256)
        return {sha256: (self._files / sha256, hash_) for sha256, hash_ in hashes.items()}

    def _hashes(self) -> Iterator[tuple[str, str]]:
        """Iterate over the SHA-256 and the hash in Xet of all files of the shards."""
        for shard in self._folder.glob("shards/*.mdb"):
            data = shard.read_bytes()
            at = _RECORD
            while data[at : at + 32] != b"\xff" * 32:
                flags, segments = struct.unpack_from("<II", data, at + 32)
                last = at + _RECORD * (segments * (2 if flags & _HAS_VERIFICATION else 1) + 1)
                if flags & _HAS_SHA256:
                    yield _text(data[last : last + 32]), _text(data[at : at + 32])
                    last += _RECORD
                at = last


def _text(digest: bytes) -> str:
    """Return a hash as Xet writes it: as four numbers of 64 bits."""
    return "".join(f"{number:016x}" for number in struct.unpack("<4Q", digest))


def _run(task: Mapping[str, object]) -> str:
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, check=False, input=json.dumps(task), capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"hf-xet failed in {task['endpoint']}:\n{done.stderr}")
    return done.stdout
