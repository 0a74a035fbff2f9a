"""Exports are read by the libraries that they are made for, with the same values, and come back by import."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest

from loader.convert.exporting import ExportRequest, export_samples
from loader.format.dataset_ref import DatasetRef
from loader.prepare.plan import SplitRequest
from tests.cli.make_dataset import picture
from tests.e2e.dataset_tree import prepare, write_shard
from tests.interop.movers.environments import Environment, environment
from tests.source_tree import ROOT

pytestmark = pytest.mark.slow

SAMPLES = 24
# Scripts that read all samples with each library; pictures as the bytes of their files.
READ = {
    "mds": """\
from streaming import LocalDataset

samples = LocalDataset("mds")
rows = [samples[n] | {"jpg": samples[n]["jpg"].fp.getvalue()} for n in range(len(samples))]
""",
    "litdata": """\
from litdata import StreamingDataset
from litdata.streaming.serializers import BytesSerializer

samples = StreamingDataset("litdata", shuffle=False, serializers={"jpeg": BytesSerializer()})
rows = [samples[n] | {"jpg": bytes(samples[n]["jpg"])} for n in range(len(samples))]
""",
}
PRINT = """
import json
def form(value):
    if isinstance(value, bytes | memoryview):
        return value.hex()
    return [value.dtype.str, value.tolist()] if hasattr(value, "dtype") else value
print("rows:" + json.dumps([{name: form(value) for name, value in row.items()} for row in rows]))
"""


def parts(number: int) -> dict[str, bytes]:
    array = io.BytesIO()
    np.save(array, np.arange(number + 1, dtype=np.float32).reshape(1, -1))
    document = json.dumps({"n": number, "kind": "dog" if number % 2 else "cat"}).encode()
    texts = {"txt": f"phötö {number}".encode(), "cls": b"%d" % (number % 2), "json": document}
    return {"bin": bytes([0, number]), "jpg": picture(number), "npy": array.getvalue(), **texts}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leaving")
    for shard in range(2):
        numbers = range(shard * SAMPLES // 2, (shard + 1) * SAMPLES // 2)
        write_shard(folder / f"my_dataset/shard_{shard}.tar", {f"{number:04}": parts(number) for number in numbers})
    prepare(folder / "my_dataset", split=SplitRequest(ratio={"train": 1.0}))
    return folder


def export(folder: Path, output: str, file_format: str, **options: object) -> None:
    refs = [DatasetRef(str(folder / "my_dataset"))]
    export_samples(ExportRequest(refs=refs, output=str(folder / output), format=file_format, **options))  # type: ignore[arg-type]


def run(libraries: Environment, folder: Path, code: str) -> str:
    (folder / "script.py").write_text(code, encoding="utf-8")
    done = libraries.run(["script.py"], folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("file_format", READ)
def test_chunks_have_the_values_and_come_back(folder: Path, file_format: str) -> None:
    libraries = environment("loaders")
    export(folder, file_format, file_format)
    printed = run(libraries, folder, READ[file_format] + PRINT)
    rows = json.loads(re.findall(r"^rows:(.*)$", printed, flags=re.MULTILINE)[0])
    assert len(rows) == SAMPLES
    for number, row in enumerate(rows):
        assert row == {
            "__key__": f"shard_{number * 2 // SAMPLES}.tar/{number:04}",
            "bin": parts(number)["bin"].hex(),
            "jpg": parts(number)["jpg"].hex(),
            "npy": ["<f4", [[*map(float, range(number + 1))]]],
            "txt": f"phötö {number}",
            "cls": number % 2,
            "json": json.loads(parts(number)["json"]) if file_format == "mds" else parts(number)["json"].decode(),
        }
    # The import reads them with the same library, and makes the same parts.
    command = [file_format, f"{file_format}_back", "--yes", "--split-ratio", "1,0,0", "--num-workers", "1"]
    run(libraries, folder, f"from energon_cli.main import main\nassert main(['import', *{command!r}]) == 0")
    with tarfile.open(next((folder / f"{file_format}_back").glob("*.tar"))) as tar:
        back = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    for number in range(SAMPLES):
        for part, data in parts(number).items():
            if part == "json":
                name = "json" if file_format == "mds" else "json.txt"
                assert json.loads(back[f"{number:02}.{name}"]) == json.loads(data)
            else:
                assert back[f"{number:02}.{part}"] == data, part


def test_the_code_on_the_page_runs(folder: Path) -> None:
    page = (ROOT / "docs/how-to/leave.md").read_text(encoding="utf-8")
    mds, litdata, datasets = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    export(folder, "my_mds", "mds")
    export(folder, "my_chunks", "litdata", drop_parts=("jpg",))  # whose decoder, torchvision's, needs CUDA
    export(folder, "my_dataset.parquet", "parquet", label="json[kind]")
    assert "0000" in run(environment("loaders"), folder, mds + "print(sample['__key__'])\n")
    assert "phötö 0" in run(environment("loaders"), folder, litdata + "print(sample['txt'])\n")
    check = "print(name, table[1]['jpg'].size)\n"
    assert "dog (" in run(environment("trainers"), folder, datasets + check)
