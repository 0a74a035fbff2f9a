"""The pages of ``energon browse`` in a real Chromium; ``make test-browser`` runs these tests."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from energon_cli.main import main
from loader import open_dataset
from tests.cli.make_dataset import caption_parts, write_captions, write_shard

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        shutil.which("chromium") is None or shutil.which("chromedriver") is None,
        reason="needs chromium and chromedriver (apt-get install chromium chromium-driver)",
    ),
]
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,800",
)
HOSTILE = 'a/b "<script>pwned = 1</script>\n<img src=x onerror=pwned=1>'  # a dot would end the key


def hostile_parts(number: int) -> dict[str, bytes]:
    text = "<image>\nWhat? <script>window.pwned = 1</script><img src=x onerror='window.pwned=1'>"
    turns = [{"role": "user", "content": text}, {"role": "assistant", "content": "A gradient."}]
    return {
        **caption_parts(number),
        "json": json.dumps({"messages": turns}).encode(),
        "svg": b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=1'/>",
    }


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_captions(tmp_path_factory.mktemp("pages") / "captions", samples=15)
    write_shard(folder / "shard_999.tar", {HOSTILE: hostile_parts(60), "broken": {"jpg": b"no picture"}})
    assert main(["prepare", str(folder), "--non-interactive", "--split-ratio", "3,1,1", "--num-workers", "1"]) == 0
    return folder


@pytest.fixture(scope="module")
def url(dataset: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "energon_cli", "browse", str(dataset), "--json", "--edit"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())["url"]
        server.terminate()
        server.wait(20)


@pytest.fixture
def browser(url: str) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.get(url)
    yield driver
    if "BROWSE_SCREENSHOTS" in os.environ:
        driver.save_screenshot(f"{os.environ['BROWSE_SCREENSHOTS']}/{time.time_ns()}.png")
    driver.quit()


def wait(claim: Callable[[], Any]) -> Any:
    limit = time.monotonic() + 20
    while time.monotonic() < limit:
        found = claim()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("the page did not come to show this")


def run(browser: Any, script: str) -> Any:
    return browser.execute_script(f"return {script}")


def loaded_pictures(browser: Any) -> int:
    shown = run(browser, "[...document.querySelectorAll('.cell img')].filter((one) => one.naturalWidth > 0).length")
    return int(shown)


def press(browser: Any, keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(keys).perform()


def test_the_grid_shows_thumbnails_and_the_url_loses_its_token(browser: Any) -> None:
    wait(lambda: loaded_pictures(browser) >= 20)
    assert "token" not in browser.current_url
    assert "62 samples" in wait(lambda: run(browser, "document.getElementById('status').textContent"))


def test_a_page_of_a_notebook_shows_samples_in_the_frame(browser: Any, dataset: Path, tmp_path: Path) -> None:
    frame = open_dataset(dataset).browse(height=500)
    page = tmp_path / "notebook.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><h1>Notebook</h1>{frame._repr_html_()}")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as notebook:
        threading.Thread(target=notebook.serve_forever, daemon=True).start()
        for host in ("localhost", "127.0.0.1"):
            browser.get(f"http://{host}:{notebook.server_port}/notebook.html")
            browser.switch_to.frame(wait(lambda: browser.find_elements("tag name", "iframe"))[0])
            wait(lambda: loaded_pictures(browser) >= 5)
            assert "62 samples" in wait(lambda: run(browser, "document.getElementById('status').textContent"))
            assert run(browser, "location.hostname") == host
            browser.switch_to.default_content()
        notebook.shutdown()
    frame.close()


def test_each_thumbnail_is_requested_once_and_none_is_given_up(browser: Any) -> None:
    wait(lambda: loaded_pictures(browser) >= 20)
    script = """performance.getEntriesByType('resource').filter((one) => one.name.includes('/thumbnail'))
        .map((one) => [one.name, one.responseStatus])"""
    requested = run(browser, script)
    assert len({name for name, _ in requested}) == len(requested)
    assert {answered for _, answered in requested} == {200}


def test_buttons_for_the_selection_are_shown_while_there_is_one(browser: Any) -> None:
    wait(lambda: loaded_pictures(browser) >= 20)
    is_shown = "document.querySelector('button[title=\"tag the selection\"]').offsetParent !== null"
    assert not run(browser, is_shown)
    press(browser, "x")
    assert run(browser, is_shown)
    run(browser, "document.querySelector('button[title=\"select nothing\"]').click()")
    assert not run(browser, is_shown)
    wait(lambda: run(browser, "document.querySelectorAll('.cell.chosen').length") == 0)


def test_the_keyboard_opens_a_sample_and_its_neighbour_and_returns(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    wait(lambda: loaded_pictures(browser) >= 20)
    press(browser, Keys.ARROW_RIGHT + Keys.ENTER)
    wait(lambda: browser.current_url.endswith("/s/captions/shard_000.tar/000001"))
    wait(lambda: run(browser, "document.querySelector('h1')?.textContent === 'shard_000.tar/000001'"))
    press(browser, Keys.ARROW_RIGHT)
    wait(lambda: run(browser, "document.querySelector('h1')?.textContent === 'shard_000.tar/000002'"))
    press(browser, Keys.ESCAPE)
    wait(lambda: loaded_pictures(browser) >= 20)


def test_a_search_shows_the_samples_whose_keys_begin_with_it(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    wait(lambda: loaded_pictures(browser) >= 20)
    press(browser, "/")
    press(browser, "00001" + Keys.ENTER)
    wait(lambda: run(browser, "document.getElementById('status').textContent") == "10 found")
    wait(lambda: run(browser, "document.querySelectorAll('.cell').length") == 10)


def text_of(browser: Any, selector: str) -> str:
    return str(run(browser, f"document.querySelector({selector!r})?.textContent ?? ''"))


def test_a_bar_of_the_statistics_shows_its_samples(browser: Any, url: str) -> None:
    browser.get(url.partition("?")[0] + "stats/captions")
    wait(lambda: run(browser, "document.querySelectorAll('figure .bars').length > 2"))
    script = """(() => {
        const of = (one) => one.querySelector('h2').textContent === 'txt.words';
        const bars = [...document.querySelectorAll('figure')].find(of).querySelectorAll('button');
        const bar = [...bars].find((one) => one.firstChild.style.height !== '0px');
        const count = Number(bar.title.split(': ')[1]);
        bar.click();
        return count;
    })()"""
    count = run(browser, script)
    assert count > 0
    wait(lambda: text_of(browser, "#status") == f"{count} found")
    assert "in=where" in browser.current_url


def test_a_search_survives_a_reload_and_the_way_back(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    wait(lambda: loaded_pictures(browser) >= 20)
    press(browser, "/")
    press(browser, "00001" + Keys.ENTER)
    wait(lambda: text_of(browser, "#status") == "10 found")
    browser.refresh()
    wait(lambda: text_of(browser, "#status") == "10 found")
    wait(lambda: text_of(browser, ".cell span"))
    run(browser, "document.querySelector('.cell').click()")
    wait(lambda: text_of(browser, "h1"))
    browser.back()
    wait(lambda: text_of(browser, "#status") == "10 found")


def test_the_training_order_names_steps(browser: Any, url: str) -> None:
    browser.get(url.partition("?")[0] + "?order=training&step=7&batch_size=4")
    wait(lambda: text_of(browser, ".cell span").startswith("7 · 0 · "))
    titles = run(browser, "[...document.querySelectorAll('.cell')].map((one) => one.title)")
    assert sum("step 8 rank 0" in title for title in titles) == 4


def test_the_tree_leads_to_the_grid_of_a_dataset(browser: Any, url: str) -> None:
    browser.get(url.partition("?")[0] + "datasets")
    wait(lambda: run(browser, "[...document.querySelectorAll('.strip img')].some((one) => one.naturalWidth > 0)"))
    run(browser, "document.querySelector('.leaf a').click()")
    wait(lambda: loaded_pictures(browser) >= 20)


def test_the_broken_picture_is_found_and_its_page_tells_the_finding(browser: Any, url: str) -> None:
    browser.get(url.partition("?")[0] + "?in=findings&text=E302")
    wait(lambda: text_of(browser, "#status") == "1 found")
    wait(lambda: text_of(browser, ".cell span").startswith("E302: "))
    run(browser, "document.querySelector('.cell').click()")
    wait(lambda: text_of(browser, "h1") == "shard_999.tar/broken")
    wait(lambda: run(browser, "[...document.querySelectorAll('code')].some((one) => one.textContent === 'E302')"))


def test_a_selection_is_tagged_and_found_by_its_tag(browser: Any) -> None:
    wait(lambda: loaded_pictures(browser) >= 20)
    press(browser, "x")
    press(browser, "\ue014x")
    run(browser, "document.querySelector('button[title=\"tag the selection\"]').click()")
    browser.switch_to.alert.send_keys("odd")
    browser.switch_to.alert.accept()
    wait(lambda: "tagged" in text_of(browser, "#status"))
    press(browser, "/")
    browser.execute_script("document.querySelector('select[title=\"what is searched\"]').value = 'where'")
    press(browser, "tag == 'odd'\ue007")
    wait(lambda: text_of(browser, "#status") == "2 found")


def test_a_picture_is_zoomed_to_its_own_pixels(browser: Any, url: str) -> None:
    browser.get(url.partition("?")[0] + "s/captions/shard_000.tar/000002")
    wait(lambda: run(browser, "document.querySelector('.zoom img')?.naturalWidth > 0"))
    run(browser, "document.querySelector('.zoom img').click()")
    wait(lambda: "/part?" in str(run(browser, "document.querySelector('.zoom img').src")))


def test_a_narrow_screen_has_two_columns_and_no_page_wider_than_it(browser: Any, url: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    )
    for path in ("", "stats/captions", "s/captions/shard_000.tar/000002"):
        browser.get(url.partition("?")[0] + path)
        wait(lambda: run(browser, "document.querySelector('.cell img, figure, h1') !== null"))
        assert run(browser, "document.documentElement.scrollWidth") <= 390
    browser.get(url.partition("?")[0])
    wait(lambda: loaded_pictures(browser) >= 4)
    assert run(browser, "document.querySelector('.cell').offsetWidth") > 150


def test_dark_and_light_are_chosen_and_kept(browser: Any) -> None:
    wait(lambda: loaded_pictures(browser) >= 20)
    colour = "getComputedStyle(document.body).backgroundColor"
    before = run(browser, colour)
    run(browser, "document.querySelector('button[title=\"dark or light\"]').click()")
    changed = wait(lambda: run(browser, colour) != before and run(browser, colour))
    browser.refresh()
    wait(lambda: run(browser, colour) == changed)


def test_a_hostile_sample_runs_no_script_and_asks_no_other_host(browser: Any, url: str) -> None:
    from selenium.webdriver.common.by import By

    wait(lambda: loaded_pictures(browser) >= 20)
    press(browser, "/")
    press(browser, "a/b\ue007")
    wait(lambda: run(browser, "document.querySelectorAll('.cell').length") == 1)
    browser.find_element(By.CSS_SELECTOR, ".cell").click()
    wait(lambda: run(browser, "document.querySelector('.turn.answer')"))
    wait(lambda: run(browser, "document.querySelector('.turn img')?.naturalWidth > 0"))
    assert run(browser, "document.querySelector('h1').textContent") == f"shard_999.tar/{HOSTILE}"
    assert run(browser, "window.pwned ?? null") is None
    hosts = run(browser, "performance.getEntriesByType('resource').map((one) => new URL(one.name).host)")
    assert set(hosts) == {url.split("/")[2]}


def video(frames: int) -> bytes:
    av = pytest.importorskip("av")
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="webm") as container:
        stream = container.add_stream("libvpx", rate=10)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = 320, 240, "yuv420p", 8_000_000
        noise = np.random.default_rng(0)
        for _ in range(frames):
            frame = av.VideoFrame.from_ndarray(noise.integers(0, 255, (240, 320, 3), np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return buffer.getvalue()


def test_a_video_plays_from_its_middle_by_ranged_requests(browser: Any, tmp_path: Path) -> None:
    write_shard(tmp_path / "videos/s.tar", {"clip": {"webm": video(100)}})
    command = [sys.executable, "-m", "energon_cli", "browse", str(tmp_path / "videos"), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = json.loads(server.stdout.readline())["url"]
            browser.get(url)
            wait(lambda: "token" not in browser.current_url)
            browser.get(url.partition("?")[0] + "s/videos/s.tar/clip")
            wait(lambda: run(browser, "document.querySelector('video')?.readyState >= 1"))
            assert run(browser, "document.querySelector('video').duration") == pytest.approx(10, abs=0.5)
            browser.execute_script("const one = document.querySelector('video'); one.muted = true; one.currentTime = 5")
            wait(lambda: run(browser, "!document.querySelector('video').seeking"))
            browser.execute_script("document.querySelector('video').play()")
            wait(lambda: run(browser, "document.querySelector('video').currentTime > 5.1"))
            assert run(browser, "document.querySelector('video').error") is None
            script = "return fetch(document.querySelector('video').src, {headers: {Range: 'bytes=100-199'}})"
            answer = browser.execute_script(f"{script}.then((one) => [one.status, one.headers.get('content-range')])")
            assert answer[0] == 206
            assert answer[1].startswith("bytes 100-199/")
        finally:
            server.terminate()
            server.wait(20)
