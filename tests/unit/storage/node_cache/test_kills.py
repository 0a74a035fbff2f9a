"""Processes that are killed at any moment leave a cache that others read from, and no more than its limit."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .killed_readers import LIMIT_BYTES, UNSEEN_BYTES

_SCRIPT = Path(__file__).with_name("killed_readers.py")


@pytest.mark.parametrize("kills", [60, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_named", [False, True], ids=["unnamed files", "named files"])
@pytest.mark.sampled(2)
def test_kills_leave_a_usable_cache(kills: int, is_named: bool, tmp_path: Path) -> None:
    outside = tmp_path / "cache" / "of others"
    outside.parent.mkdir()
    outside.write_text("mine")
    arguments = [str(tmp_path / "cache"), str(kills), "4", str(int(is_named)), "1"]
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout.split() == [str(kills), "0"], done.stderr
    assert [line for line in done.stderr.splitlines() if not (is_named and "cannot use" in line)] == []
    (own,) = (tmp_path / "cache").glob("energon-cache-*")
    assert sorted(path.name for path in own.iterdir()) == ["CACHEDIR.TAG", "blocks", "files", "locks"]
    blocks = [path.name for path in (own / "blocks").iterdir()]
    partial = [name for name in blocks if name.endswith(".partial")]
    assert len(partial) <= kills + 4 if is_named else not partial
    assert all(re.fullmatch(r"[0-9a-f]{40}-\d+(-[0-9a-f]{12}\.partial)?", name) for name in blocks)
    whole = sum((own / "blocks" / name).stat().st_size for name in blocks if name not in partial)
    assert whole <= LIMIT_BYTES + 5 * UNSEEN_BYTES
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == sorted([own.name, "of others"])
    assert outside.read_text() == "mine"
