"""The page on datasets of the Hugging Face Hub runs as it is there, on likenesses of them and a hub on this machine."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loader import open_dataset
from tests.hub_server import HubServer, hub_server
from tests.layouts import cards_mixed, cards_texts, public
from tests.layouts.layout import picture, write
from tests.pages import blocks, commands, put_energon_on_path
from tests.source_tree import ROOT

PAGE = (ROOT / "docs/how-to/train-from-the-hub.md").read_text(encoding="utf-8")


def mnist(folder: Path) -> None:
    features = {"image": {"_type": "Image"}, "label": {"names": [*"0123456789"], "_type": "ClassLabel"}}
    metadata = {"huggingface": f'{{"info": {{"features": {str(features).replace(chr(39), chr(34))}}}}}'}
    for part, count in (("train", 6), ("test", 3)):
        images = [{"bytes": picture("PNG", mode="L"), "path": f"{n}.png"} for n in range(count)]
        table = pa.table({"image": images, "label": [*range(count)]}).replace_schema_metadata(metadata)
        file = io.BytesIO()
        pq.write_table(table, file)
        write(folder, {f"mnist/{part}-00000-of-00001.parquet": file.getvalue(), "README.md": "# MNIST"})


def alpaca_cleaned(folder: Path) -> None:
    cards_texts.alpaca(folder)
    (folder / "alpaca_data.json").rename(folder / "alpaca_data_cleaned.json")


def llava_pretrain(folder: Path) -> None:
    cards_texts.llava_pretrain(folder)
    pictures = sorted((folder / "images").rglob("*.jpg"))
    with zipfile.ZipFile(folder / "images.zip", "w") as file:
        for path in pictures:
            file.write(path, path.relative_to(folder / "images"))
            path.unlink()


def llava_list(folder: Path) -> None:
    cards_texts.llava_mix_665k(folder)
    for path in folder.rglob("*.jpg"):
        path.unlink()


REPOSITORIES = {
    "pixparse/cc12m-wds": cards_mixed.tars_of_img2dataset,
    "ylecun/mnist": mnist,
    "HuggingFaceM4/OBELICS": public.obelics_with_downloaded_pictures,
    "yahma/alpaca-cleaned": alpaca_cleaned,
    "liuhaotian/LLaVA-Pretrain": llava_pretrain,
    "liuhaotian/LLaVA-Instruct-150K": llava_list,
    "lmms-lab/LLaVA-Video-178K": public.llava_video_as_it_is_downloaded,
    "lerobot/fractal": public.lerobot_files,
}
SAMPLES = {
    "hf://datasets/pixparse/cc12m-wds": 6,
    "resharded": 6,
    "hf://datasets/ylecun/mnist": 9,
    "mnist": 9,
    "hf://datasets/HuggingFaceM4/OBELICS": 2,
    "alpaca": 50,
    "llava-pretrain": 5,
    "llava-mix": 7,
    "academic": 2,
    "steps": 4,
    "videos": 2,
}
"""Dataset of the page → number of its samples."""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # of the client
    put_energon_on_path(tmp_path / "bin", monkeypatch)
    for variable, folder in (("HF_HOME", "hf"), ("ENERGON_INDEX", "index"), ("ENERGON_CACHE_DIR", "cache")):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / folder))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    cards_texts.llava_mix_665k(tmp_path / "pictures")
    with hub_server() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        for name, build in REPOSITORIES.items():
            (tmp_path / "sources" / name).mkdir(parents=True)
            build(tmp_path / "sources" / name)
            hub.create("datasets", name).commit(tmp_path / "sources" / name)
        yield hub


def run(*command: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done


@pytest.mark.slow  # about 20 commands on 8 repositories
def test_the_commands_of_the_page_make_datasets_of_repositories(hub: HubServer, tmp_path: Path) -> None:
    install, *lines = [line for block in blocks(PAGE, "console") for line in commands(block)]
    assert install == "pip install 'energon-toolkit[hf]'"
    done = {line: run("bash", "-c", line) for line in lines}
    # All datasets are there, and nothing was written to a repository.
    assert {path: len(open_dataset(path)) for path in SAMPLES} == SAMPLES
    assert all(name in PAGE for name in REPOSITORIES)
    assert {request.method for request in hub.log} <= {"GET", "HEAD"}
    assert not hub.count(status=429)
    assert f"metadata are kept in {tmp_path}/index/cc12m-wds-" in "".join(each.stderr for each in done.values())
    assert "label_name" in done["energon preview hf://datasets/ylecun/mnist"].stdout
    # The files of a repository are listed once, though each command is a process of its own.
    for name in REPOSITORIES:
        assert hub.count(path=f"/api/datasets/{name}/tree/*", status=200) <= 2, name  # the other one of a folder in it
    # The training.
    script = re.findall(r'^```python title="train.py"\n(.*?)^```$', PAGE, flags=re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "train.py").write_text(script)
    assert run(sys.executable, "train.py").stdout.splitlines() == [
        f"{step} 2 pictures, 2 captions" for step in range(3)
    ]
