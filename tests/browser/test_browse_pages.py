"""The pages of ``energon browse`` in a real Chromium; ``make test-browser`` runs these tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from energon_cli.main import main
from tests.cli.make_dataset import caption_parts, write_captions, write_shard

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        shutil.which("chromium") is None or shutil.which("chromedriver") is None,
        reason="needs chromium and chromedriver (apt-get install chromium chromium-driver)",
    ),
]
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
    command = [sys.executable, "-m", "energon_cli", "browse", str(dataset), "--json"]
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
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,800"):
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
