"""An untrusted dataset may contain a forged unfinished commit."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from loader.errors import FormatError, StorageError
from loader.format.index.publish import finish_interrupted_commit
from loader.storage import LocalStorage

STAGED = ".nv-meta/.prepare/staged/x"


@pytest.mark.parametrize(
    ("renames", "removals"),
    [
        ([[STAGED, "../victim"]], []),
        ([[STAGED, "/tmp/victim"]], []),
        ([[STAGED, ".nv-meta/../../victim"]], []),
        ([[STAGED, "shards/a.tar"]], []),
        ([["../victim", ".nv-meta/x"]], []),
        ([["s.tar", ".nv-meta/x"]], []),
        ([[".nv-meta/.prepare/staged/../../../s.tar", ".nv-meta/x"]], []),
        ([], ["../victim"]),
        ([], ["/tmp/victim"]),
        ([], ["s.tar"]),
        ([], [".nv-meta/split.yaml"]),
        ([], [".nv-meta/index/../split.yaml"]),
        ([], ["../victim.tar.idx"]),
    ],
)
def test_a_planted_commit_touches_nothing(tmp_path: Path, renames: list[list[str]], removals: list[str]) -> None:
    root = tmp_path / "dataset"
    (root / STAGED).parent.mkdir(parents=True)
    for path in (root / STAGED, root / "s.tar", root / ".nv-meta/split.yaml", tmp_path / "victim"):
        path.write_text("as it was")
    (tmp_path / "victim.tar.idx").write_text("as it was")
    (root / ".nv-meta/.prepare/commit.json").write_text(json.dumps({"renames": renames, "removals": removals}))
    before = sorted(path for path in tmp_path.rglob("*"))
    with pytest.raises(FormatError, match="the list of a commit's renames is damaged"):
        finish_interrupted_commit(LocalStorage(root))
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    (tmp_path / ".lock").symlink_to(victim)
    with pytest.raises(StorageError, match="cannot create this lock file"), LocalStorage(tmp_path).lock(".lock"):
        pytest.fail("the lock was taken")
    assert victim.read_text() == "as it was"
    assert os.path.islink(Path(tmp_path / ".lock"))
