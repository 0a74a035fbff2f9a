"""A captioning dataset prepared by one tool works with the commands of the other."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from .conftest import WHOLE, Peer, Program
from .shapes import END, Shape, file, write

SAMPLES, SHARDS = 40, 10
SPLIT = ("--split-ratio", "8,1,1")
FIELD_MAP = {"image": "jpg", "caption": "json[caption]"}
TYPED = (*SPLIT, "--sample-type", "CaptioningSample", "--field-map", json.dumps(FIELD_MAP))


def jpeg(number: int) -> bytes:
    noise = np.random.default_rng(number).integers(0, 256, (8, 12, 3), np.uint8)
    content = io.BytesIO()
    Image.fromarray(noise).resize((30 + number, 20 + number)).save(content, "JPEG")
    return content.getvalue()


def captions() -> Shape:
    """Write captioned images to shards in two folders."""
    per_shard = SAMPLES // SHARDS
    return {
        f"folder_{shard % 2}/s{shard}.tar": b"".join(
            file(f"{number:04d}.jpg", jpeg(number))
            + file(f"{number:04d}.json", json.dumps({"caption": f"picture {number}"}).encode())
            for number in range(shard * per_shard, (shard + 1) * per_shard)
        )
        + END
        for shard in range(SHARDS)
    }


@pytest.fixture(scope="module")
def of_ours(tmp_path_factory: pytest.TempPathFactory, ours: Program) -> Path:
    return ours.prepare(write(tmp_path_factory.mktemp("ours"), captions()), *TYPED, "--compat")


@pytest.fixture(scope="module")
def of_peer(tmp_path_factory: pytest.TempPathFactory, peer: Peer) -> Path:
    return peer.prepare(write(tmp_path_factory.mktemp("peers"), captions()), *TYPED)


@pytest.fixture
def taken_over(of_peer: Path, tmp_path: Path) -> Path:
    """Copy of the peer's dataset, for tests that change it."""
    return Path(shutil.copytree(of_peer, tmp_path / "dataset"))


def test_the_peer_reads_the_same_samples_from_ours_and_its_own(of_ours: Path, of_peer: Path, peer: Peer) -> None:
    for part, count in (("train", 32), ("val", 4), ("test", 4)):
        samples = peer.read("fields", of_ours, part)["samples"]
        assert len(samples) == count
        assert {kind for _, kind, _ in samples} == {"CaptioningSample"}
        assert samples == peer.read("fields", of_peer, part)["samples"]


def test_the_peers_info_describes_ours_as_its_own(of_ours: Path, of_peer: Path, peer: Peer) -> None:
    mine = peer.run("info", of_ours)
    assert f"{SAMPLES} samples" in mine
    assert f"{SHARDS} shards" in mine
    assert mine.replace(str(of_ours), "").replace(of_ours.name, "") == peer.run("info", of_peer).replace(
        str(of_peer), ""
    ).replace(of_peer.name, "")


@pytest.mark.parametrize("command", [("lint",), ("lint", "--parallel", "2"), ("preview",)])
def test_the_peers_commands_accept_ours(of_ours: Path, peer: Peer, command: tuple[str, ...]) -> None:
    printed = peer.run(*command, of_ours)
    # The peer's lint always exits 0, and prints its findings.
    assert "Except" not in printed


def test_a_metadataset_of_the_peers_blends_ours_with_its_own(
    of_ours: Path, of_peer: Path, peer: Peer, tmp_path: Path
) -> None:
    parts = [{"path": str(path), "weight": 1} for path in (of_ours, of_peer)]
    meta = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"val": {"blend": parts}}}
    path = tmp_path / "meta.yaml"
    path.write_text(yaml.safe_dump(meta))
    keys = [key for key, _, _ in peer.read("fields", path, "val")["samples"]]
    assert len(keys) == 8
    assert len(set(keys)) == 4


def test_the_peer_joins_ours_with_its_own(ours: Program, peer: Peer, tmp_path: Path) -> None:
    shape = captions()
    # The same samples in different shards, so that a join by position would fail.
    renamed = {f"s{SHARDS - number}.tar": content for number, content in enumerate(shape.values())}
    mine = ours.prepare(write(tmp_path / "ours", renamed), *WHOLE, *TYPED[2:], "--compat")
    other = peer.prepare(write(tmp_path / "peers", shape), *WHOLE, *TYPED[2:])
    for paths in ((other, mine), (mine, other)):
        samples = peer.read("join", *paths, "train")["samples"]
        assert len(samples) == SAMPLES
        assert all(first == second == f"picture {int(key)}" for key, first, second in samples)


# ------------------------------------------------------------------------------------------ prepared by the peer


def test_our_info_describes_the_peers(of_peer: Path, ours: Program) -> None:
    mine = json.loads(ours.run("info", "--json", of_peer))
    assert mine["samples"] == SAMPLES
    assert "CaptioningSample" in ours.run("info", of_peer)


def test_our_lint_finds_nothing_wrong_in_the_peers(taken_over: Path, ours: Program) -> None:
    ours.run("lint", taken_over)


def test_our_lint_finds_the_faults_of_the_peers(taken_over: Path, ours: Program) -> None:
    shard = taken_over / "folder_1/s3.tar"
    content = bytearray(shard.read_bytes())
    content[512 : 512 + 16] = b"<!DOCTYPE html> "
    shard.write_bytes(content)
    with pytest.raises(AssertionError, match=r"exited with 1\n[^$]*0012"):
        ours.run("lint", taken_over)


def test_our_lint_finds_the_samples_that_the_peers_prepare_lost(tmp_path: Path, ours: Program, peer: Peer) -> None:
    shape = dict(captions())
    # The peer silently treats a damaged header as the end of the archive.
    damaged = shape["folder_0/s4.tar"].replace(b"0018.jpg", b"0O18.jpg", 1)
    folder = peer.prepare(write(tmp_path / "peers", {**shape, "folder_0/s4.tar": damaged}), *TYPED)
    with pytest.raises(AssertionError, match=r"exited with 1\n[^$]*folder_0/s4.tar"):
        ours.run("lint", "--level", "headers", folder)


def test_our_preview_shows_the_peers(taken_over: Path, ours: Program) -> None:
    printed = ours.run("preview", "-n", "2", "--no-images", taken_over)
    assert "picture 0" in printed
    assert "picture 1" in printed


def test_our_prepare_takes_over_the_peers_and_keeps_the_users_files(
    taken_over: Path, ours: Program, peer: Peer
) -> None:
    meta = taken_over / ".nv-meta"
    kept = {name: (meta / name).read_bytes() for name in ("split.yaml", "dataset.yaml")}
    ours.prepare(taken_over)
    assert {name: (meta / name).read_bytes() for name in kept} == kept
    assert json.loads(ours.run("info", "--json", taken_over))["samples"] == SAMPLES
    ours.run("lint", taken_over)
    assert len(peer.read("fields", taken_over, "train")["samples"]) == 32


def test_the_peers_prepare_takes_over_ours(of_ours: Path, tmp_path: Path, ours: Program, peer: Peer) -> None:
    folder = Path(shutil.copytree(of_ours, tmp_path / "dataset"))
    peer.prepare(folder, *TYPED, "--force-overwrite")
    # The peer's new index.uuid matches no index of ours, so ours is rebuilt instead of used while stale.
    assert json.loads(ours.run("info", "--json", folder))["samples"] == SAMPLES
    ours.run("lint", folder)


def test_datasets_with_the_older_info_yaml_work(taken_over: Path, ours: Program) -> None:
    info = taken_over / ".nv-meta/.info.json"
    info.with_suffix(".yaml").write_text(yaml.safe_dump(json.loads(info.read_text()), sort_keys=False))
    info.unlink()
    assert json.loads(ours.run("info", "--json", taken_over))["samples"] == SAMPLES
    ours.run("lint", taken_over)
    assert "picture 0" in ours.run("preview", "--no-images", taken_over)


def test_datasets_without_index_sqlite_work(taken_over: Path, ours: Program) -> None:
    (taken_over / ".nv-meta/index.sqlite").unlink()
    assert json.loads(ours.run("info", "--json", taken_over))["samples"] == SAMPLES
    ours.run("lint", taken_over)
    assert "picture 0" in ours.run("preview", "--no-images", taken_over)
