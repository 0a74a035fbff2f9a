"""The commands and code of the page on object stores do what it says, on a real S3 server."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from demo_photographs import make_dataset

from loader import EPath
from tests.pages import blocks, commands, put_energon_on_path
from tests.source_tree import ROOT

from .conftest import ACCESS_KEY, SECRET_KEY

PAGE = (ROOT / "docs/how-to/object-stores.md").read_text(encoding="utf-8").replace("s3://bucket", "s3://data")


@pytest.fixture
def folder(tmp_path: Path, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which commands run; the shards of photographs are in the bucket."""
    put_energon_on_path(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    make_dataset(tmp_path / "local")
    for path in sorted((tmp_path / "local").rglob("*.tar")):
        for name in ("coco", "photos"):
            EPath(path).copy(EPath("s3://data") / name / path.name)
    return tmp_path


def run(folder: Path, script: str) -> str:
    done = subprocess.run(["bash", "-euc", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow  # a minute of commands
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_the_page_works_on_a_real_server(folder: Path, s3_url: str) -> None:
    first, _public, minio, _cdn, msc = map(commands, blocks(PAGE, "console"))
    assert first[0] == "pip install 'energon-toolkit[remote]'"
    output = run(folder, "\n".join(first[1:]))
    assert "prepared s3://data/coco: 60 samples in 4 shards" in output
    assert "no findings: 60 samples" in output
    assert "60 samples in 4 shards" in run(folder, "\n".join(minio).replace("https://minio.local:9000", s3_url))

    train, options, paths = blocks(PAGE, "python")
    for script, printed in zip((train, paths), blocks(PAGE, "text"), strict=True):
        (folder / "script.py").write_text(script)
        assert run(folder, f"{sys.executable} script.py") == printed
    (folder / "script.py").write_text(
        f"{options}\nimport os; del os.environ['AWS_ENDPOINT_URL']\n"
        + train.replace("batch_size=8,", "batch_size=8, storage_options=storage_options,")
    )
    (folder / "script.py").write_text((folder / "script.py").read_text().replace("https://minio.local:9000", s3_url))
    assert run(folder, f"{sys.executable} script.py") == blocks(PAGE, "text")[0]

    profile, mix = blocks(PAGE, "yaml")
    (folder / "msc.yaml").write_text(profile.replace("https://minio.local:9000", s3_url).replace("bucket\n", "data\n"))
    assert "60 samples in 4 shards" in run(folder, "\n".join(msc))
    run(folder, f"energon prepare {folder / 'local'} --yes")
    EPath("s3://data/mix.yaml").write_text(mix.replace("/data/my_dataset", str(folder / "local")))
    assert "0 errors" in run(folder, "energon lint s3://data/mix.yaml").replace("no findings", "0 errors")


def test_all_blocks_of_the_page_are_tested_here() -> None:
    languages = re.findall(r"^```(\w+)$", PAGE, flags=re.MULTILINE)
    assert sorted(languages) == sorted(["console"] * 5 + ["python"] * 3 + ["text"] * 2 + ["yaml"] * 2 + ["bash"] * 2)
