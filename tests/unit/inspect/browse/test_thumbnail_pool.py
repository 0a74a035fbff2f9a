"""Worker processes of thumbnails: caching, order, and what is left of a worker that was killed."""

from __future__ import annotations

import asyncio
import io
import multiprocessing
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from energon_cli.main import main
from loader.errors import EnergonError
from loader.format.dataset_ref import DatasetRef
from loader.inspect.browse import BrowsedDataset, DatasetAddress, PartAddress, ThumbnailPool
from loader.samples import PictureError
from tests.cli.make_dataset import write_captions, write_shard


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_captions(tmp_path_factory.mktemp("thumbnails") / "captions")
    assert main(["prepare", str(folder), "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    return folder


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of noise: their thumbnails are larger than the buffer of a socket."""
    folder = tmp_path_factory.mktemp("thumbnails") / "large"
    noise = np.random.default_rng(0).integers(0, 256, (4, 900, 1000, 3), np.uint8)
    pictures = [io.BytesIO() for _ in noise]
    for buffer, pixels in zip(pictures, noise, strict=True):
        Image.fromarray(pixels).save(buffer, "JPEG", quality=70)
    write_shard(folder / "large.tar", {str(one): {"jpg": buffer.getvalue()} for one, buffer in enumerate(pictures)})
    assert main(["prepare", str(folder), "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    return folder


def address(folder: Path, number: int, part: str = "jpg") -> PartAddress:
    if not folder.exists():
        return PartAddress(DatasetAddress(DatasetRef(str(folder)), "none"), number, part)
    return PartAddress(BrowsedDataset("", DatasetRef(str(folder))).address, number, part)


def run(
    use: Callable[[ThumbnailPool], Awaitable[None]],
    workers: int = 1,
    cache_bytes: int = 1 << 20,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    async def with_pool() -> None:
        pool = ThumbnailPool(workers=workers, cache_bytes=cache_bytes)
        try:
            async with asyncio.timeout(120):
                await use(pool)
        finally:
            pool.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(with_pool())


def size(data: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(data)) as image:
        return image.size


def test_thumbnails_are_made_by_several_processes_and_kept(folder: Path) -> None:
    async def use(pool: ThumbnailPool) -> None:
        tasks = [pool.thumbnail(str(number), address(folder, number), 256) for number in range(12)]
        made = await asyncio.gather(*tasks)
        assert len(set(made)) == 12
        assert {size(one) for one in made} == {(24, 16)}
        assert await pool.thumbnail("3", address(Path("no such dataset"), 3), 256) is made[3]

    run(use, workers=2)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_thumbnails_may_be_larger_than_the_buffer_of_a_socket(large: Path, loop: str) -> None:
    async def use(pool: ThumbnailPool) -> None:
        made = await asyncio.gather(*(pool.thumbnail(str(one), address(large, one), 1024) for one in range(4)))
        assert {size(one) for one in made} == {(1000, 900)}
        assert all(len(one) > 300_000 for one in made)

    run(use, loop=pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None)


def test_the_cache_is_bounded(folder: Path) -> None:
    async def use(pool: ThumbnailPool) -> None:
        first = await pool.thumbnail("0", address(folder, 0), 256)
        assert await pool.thumbnail("0", address(folder, 0), 256) is first
        await pool.thumbnail("1", address(folder, 1), 256)
        again = await pool.thumbnail("0", address(folder, 0), 256)
        assert again == first
        assert again is not first

    run(use, cache_bytes=1000)  # of one thumbnail


def test_errors_of_workers_keep_their_types_and_the_worker(folder: Path) -> None:
    async def use(pool: ThumbnailPool) -> None:
        with pytest.raises(PictureError):
            await pool.thumbnail("text", address(folder, 0, "txt"), 256)
        (process,) = multiprocessing.active_children()
        with pytest.raises(KeyError):
            await pool.thumbnail("none", address(folder, 0, "nothing"), 256)
        with pytest.raises(EnergonError):
            await pool.thumbnail("missing", address(folder / "nothing", 0), 256)
        assert size(await pool.thumbnail("0", address(folder, 0), 256)) == (24, 16)
        assert multiprocessing.active_children() == [process]

    run(use)


def test_a_killed_worker_fails_only_the_picture_that_it_worked_at(folder: Path) -> None:
    async def use(pool: ThumbnailPool) -> None:
        await pool.thumbnail("warm", address(folder, 0), 256)
        (process,) = multiprocessing.active_children()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        tasks = [asyncio.create_task(pool.thumbnail(str(one), address(folder, one), 256)) for one in range(4)]
        await asyncio.sleep(0)
        os.kill(process.pid, signal.SIGKILL)
        first, *others = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(first, PictureError)
        assert "was killed" in str(first)
        assert all(isinstance(one, bytes) for one in others)

    run(use)


def test_a_worker_that_was_killed_while_idle_fails_nothing(folder: Path) -> None:
    async def use(pool: ThumbnailPool) -> None:
        await pool.thumbnail("warm", address(folder, 0), 256)
        (process,) = multiprocessing.active_children()
        process.kill()
        process.join()
        assert size(await pool.thumbnail("1", address(folder, 1), 256)) == (24, 16)

    run(use)


def test_a_cancelled_request_leaves_the_others_their_own_thumbnails(folder: Path) -> None:
    async def use(pool: ThumbnailPool) -> None:
        expected = [await pool.thumbnail(str(one), address(folder, one), 256) for one in range(3)]
        tasks = [asyncio.create_task(pool.thumbnail(f"again {one}", address(folder, one), 256)) for one in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        made = await asyncio.gather(*tasks, return_exceptions=True)
        assert (made[0], made[2]) == (expected[0], expected[2])
        assert isinstance(made[1], asyncio.CancelledError)

    run(use)


def test_closing_the_pool_ends_its_processes(folder: Path) -> None:
    async def use(pool: ThumbnailPool) -> None:
        await pool.thumbnail("0", address(folder, 0), 256)

    run(use, workers=2)
    for process in multiprocessing.active_children():
        process.join(60)
    assert multiprocessing.active_children() == []
