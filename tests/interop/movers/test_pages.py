"""The pages for movers run as they stand, next to the libraries that they name, in environments of these libraries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.movers.data_of_pages import DATA_OF_PAGES
from tests.interop.movers.environments import Environment, environment
from tests.source_tree import ROOT

pytestmark = pytest.mark.slow

LOADERS = ("webdataset", "mosaicml-streaming", "litdata")
TRAINERS = ("hugging-face-datasets", "trainer-and-accelerate", "torch-dataloader")
_BLOCK = re.compile(r"^```(python|console|text)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [*LOADERS, *TRAINERS])
def test_the_code_on_a_page_prints_what_the_page_says(page: str, tmp_path: Path) -> None:
    libraries = environment("loaders" if page in LOADERS else "trainers")
    (tmp_path / "data").mkdir()
    run(libraries, "\n".join(DATA_OF_PAGES[page]), tmp_path)
    text = (ROOT / f"docs/how-to/move-from-{page}.md").read_text(encoding="utf-8")
    script, expected = [], []
    for language, block in _BLOCK.findall(text):
        if language == "text":
            expected += block.splitlines()
        else:
            script.append(block if language == "python" else commands(block, libraries))
    lines = iter(run(libraries, "\n".join(script), tmp_path).splitlines())
    missing = [line for line in expected if line not in lines]  # libraries print lines of their own in between
    assert not missing


def commands(block: str, libraries: Environment) -> str:
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    lines = [f"{libraries.bin}/{line}" for line in lines if line.startswith("energon ")]
    return f"import subprocess\nfor command in {lines!r}:\n    subprocess.run(command, shell=True, check=True)\n"


def run(libraries: Environment, code: str, folder: Path) -> str:
    script = folder / "page.py"
    script.write_text(code.replace("/data/", f"{folder}/data/"), encoding="utf-8")
    done = libraries.run([str(script)], folder)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout
