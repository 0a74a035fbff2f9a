"""Measure ``energon browse`` on a dataset of a million pictures: start, first screen, jump, memory and thumbnails.

Run ``python benchmarks/bench_browse.py``; it makes its dataset, whose shards are hard links to one file, in a
temporary folder. It prints a line of JSON. ``--chromium`` also scrolls for ten seconds in Debian's Chromium and counts
frames longer than 50 ms; it needs selenium, chromium and chromedriver.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

SCROLL = """
const done = arguments[0], main = document.getElementById("main"), frames = [], begin = performance.now();
let last = begin;
requestAnimationFrame(function frame(now) {
  frames.push(now - last);
  last = now;
  main.scrollTop += 40;
  if (now - begin < 10000) requestAnimationFrame(frame); else done(frames);
});
"""
ENERGON = [sys.executable, "-m", "energon_cli"]


def make_dataset(folder: Path, *, shards: int, samples: int) -> None:
    """Write shards of 640 × 480 pictures that are links to one file, and prepare them."""
    folder.mkdir(parents=True)
    first = folder / "shard_0000.tar"
    pictures = []
    for number in range(8):
        pixels = np.zeros((480, 640, 3), np.uint8)
        pixels[..., number % 3] = np.linspace(0, 255, 640, dtype=np.uint8)
        pixels[..., 2] = number * 30
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "JPEG", quality=30)
        pictures.append(buffer.getvalue())
    with tarfile.open(first, "w", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(samples):
            member = tarfile.TarInfo(f"{number:06d}.jpg")
            member.size = len(pictures[number % 8])
            tar.addfile(member, io.BytesIO(pictures[number % 8]))
    for shard in range(1, shards):
        os.link(first, folder / f"shard_{shard:04d}.tar")
    command = [*ENERGON, "prepare", str(folder), "--non-interactive", "--split-ratio", "1,0,0", "--no-compat"]
    subprocess.run(command, check=True)


def fetch(url: str, path: str) -> bytes:
    """Return the answer to a request with the token ``bench``."""
    request = urllib.request.Request(url + path, headers={"Authorization": "Bearer bench"})
    with urllib.request.urlopen(request) as answer:
        return bytes(answer.read())


def memory_bytes(process: int) -> int:
    """Return the largest resident size of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def children(process: int) -> list[int]:
    """Return the processes that a process has started."""
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for one in lists for child in one.read_text().split()]


def processor_s(process: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_calls_bytes(process: int) -> int:
    """Return the bytes that a process has read, from files and pipes."""
    return int(Path(f"/proc/{process}/io").read_text().split()[1])


def fetch_all(address: str, paths: list[str], connections: int = 6) -> None:
    """Fetch pages over connections that stay open, as a browser does."""

    def fetch_some(number: int) -> None:
        connection = http.client.HTTPConnection(address)
        for path in paths[number::connections]:
            connection.request("GET", path, headers={"Authorization": "Bearer bench"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status}")

    with ThreadPoolExecutor(connections) as threads:
        list(threads.map(fetch_some, range(connections)))


def scroll(url: str) -> dict[str, float]:
    """Return the share of long frames while Chromium scrolls for ten seconds."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-background-networking", "disable-sync"):
        options.add_argument(f"--{flag}")
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_script_timeout(60)
    driver.get(f"{url}/?token=bench")
    try:
        time.sleep(3)
        frames = driver.execute_async_script(SCROLL)
    finally:
        driver.quit()
    return {"frames": len(frames), "long_frames": sum(frame > 50 for frame in frames) / len(frames)}


def screen(url: str, start: int, threads: ThreadPoolExecutor) -> float:
    """Return the seconds until 48 thumbnails are there, as a browser asks for them."""
    begin = time.perf_counter()
    rows = json.loads(fetch(url, f"/api/d/0/rows?start={start}&count=120"))["rows"][:48]
    list(threads.map(lambda row: fetch(url, f"/api/d/0/{row['n']}/thumbnail?part=jpg&pixels=256"), rows))
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path, help="a prepared dataset of pictures, instead of a new one")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--thumbnails", type=int, default=2000)
    parser.add_argument("--chromium", action="store_true", help="scroll in Chromium, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(6) as threads:
        folder = options.dataset or Path(temporary) / "pictures"
        if not folder.exists():
            make_dataset(folder, shards=100, samples=options.samples // 100)
        begin = time.perf_counter()
        command = [*ENERGON, "browse", str(folder), "--json", "--token", "bench"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            url = json.loads(server.stdout.readline())["url"].partition("/?")[0] if server.stdout else ""
            fetch(url, "/")
            figures: dict[str, float] = {"up_s": time.perf_counter() - begin}
            figures["first_screen_s"] = screen(url, 0, threads)
            figures["middle_s"] = screen(url, options.samples // 2, threads)
            numbers = range(1000, 1000 + options.thumbnails)
            paths = [f"/api/d/0/{number}/thumbnail?part=jpg&pixels=256" for number in numbers]
            workers = children(server.pid)
            before = sum(map(read_calls_bytes, workers))
            spent = [processor_s(server.pid), sum(map(processor_s, workers))]
            begin = time.perf_counter()
            fetch_all(url.partition("//")[2], paths)
            figures["thumbnails_per_s"] = options.thumbnails / (time.perf_counter() - begin)
            figures["server_ms"] = 1000 * (processor_s(server.pid) - spent[0]) / options.thumbnails
            figures["workers_ms"] = 1000 * (sum(map(processor_s, workers)) - spent[1]) / options.thumbnails
            figures["read_bytes"] = (sum(map(read_calls_bytes, workers)) - before) / options.thumbnails
            parts = [json.loads(fetch(url, f"/api/d/0/{number}"))["parts"][0]["size_bytes"] for number in numbers[:8]]
            figures["part_bytes"] = sum(parts) / len(parts)
            if options.chromium:
                figures |= scroll(url)
            figures["server_mib"] = memory_bytes(server.pid) / 2**20
            figures["workers_mib"] = sum(map(memory_bytes, children(server.pid))) / 2**20
        finally:
            server.terminate()
            server.wait()
    sys.stdout.write(json.dumps({name: round(value, 3) for name, value in figures.items()}) + "\n")


if __name__ == "__main__":
    main()
