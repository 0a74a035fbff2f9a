"""The lines that import annotations whose pictures are in an archive keep the annotations, and run as they stand."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from loader.convert.sources import ways_to_import
from tests.cli.make_dataset import picture
from tests.cli.run_energon import RunEnergon

LIST = "annotations/captions_train2017.json"


@pytest.fixture
def members(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, bytes]:
    monkeypatch.chdir(tmp_path)
    images = [{"id": number, "file_name": f"{number:06d}.jpg"} for number in range(3)]
    captions = [{"id": number, "image_id": number, "caption": f"picture {number}"} for number in range(3)]
    annotations = json.dumps({"images": images, "annotations": captions}).encode()
    return {LIST: annotations, **{f"train2017/{number:06d}.jpg": picture(number) for number in range(3)}}


def pack(path: str, members: dict[str, bytes]) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("layout", ["zip", "folder of a zip", "annotations next to a zip"])
def test_the_first_line_for_pictures_in_a_zip_unpacks_them_and_imports_their_captions(
    layout: str, members: dict[str, bytes], energon: RunEnergon
) -> None:
    path = "my coco.zip" if layout == "zip" else "downloads"
    if layout == "annotations next to a zip":
        Path("downloads").mkdir()
        Path("downloads/captions_train2017.json").write_bytes(members.pop(LIST))
    pack(path if layout == "zip" else "downloads/my coco.zip", members)
    *unpack, imports = map(shlex.split, str(ways_to_import(path)[0]).rpartition(": ")[2].split(" && "))
    for command in unpack:
        assert command[:4] == ["python", "-m", "zipfile", "-e"]
        subprocess.run([sys.executable, *command[1:]], check=True)
    done = energon(*imports[1:])
    assert done.code == 0, done.err
    assert "3 samples" in done.out
    assert "txt 100.0 %" in done.out
