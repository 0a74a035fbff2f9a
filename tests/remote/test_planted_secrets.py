"""Secrets of the environment appear in nothing that commands and training runs write, whatever fails.

Each process runs with planted secrets, debug logs and tracebacks. Its output, and every file that it leaves (states,
pickles, ``.nv-meta``, caches, temporary files), is searched.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.cli.make_dataset import caption_parts, write_captions
from tests.e2e.dataset_tree import prepare
from tests.object_server import Fault, FaultPlan, ObjectServer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SECRET = "pLaNtEd+/seCreT"
KEY_ID = "AKIAPLANTEDKEYID0000"
LIMITS = {"deadline_s": 0.5, "stall_s": 0.5}
URL = "s3://data/ds"

_TRAIN = """
import json, logging, pickle, sys, traceback
logging.basicConfig(level=logging.DEBUG)
from loader import WorkerConfig, get_savable_loader, get_train_dataset
path, workers = sys.argv[1], int(sys.argv[2])
files = {}
try:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    order = {"shuffle_buffer_size": 4, "max_samples_per_sequence": 2}
    dataset = get_train_dataset(path, worker_config=config, batch_size=2, **order)
    files["dataset.pickle"] = pickle.dumps(dataset)
    with get_savable_loader(dataset) as loader:
        print(dataset, repr(loader))
        for number, batch in enumerate(loader):
            print(batch)
            state = loader.save_state_rank()
            files["state.json"], files["state.pickle"] = json.dumps(state).encode(), pickle.dumps(state)
            if number == 20:
                break
except Exception as error:
    traceback.print_exc()
    print(repr(error), vars(error))
    files["error.pickle"] = pickle.dumps(error)
for name, data in files.items():
    open(name, "wb").write(data)
"""

COMMANDS: dict[str, Sequence[str]] = {
    "info": ("info", "--json", "--debug"),
    "lint": ("lint", "--level", "decode", "--json", "--debug"),
    "preview": ("preview", "--json", "--debug"),
    "prepare": ("prepare", "--yes", "--force-overwrite", "--num-workers", "2", "--debug"),
    "prepare-media": ("prepare-media", "--media-metadata-by-extension", "--debug"),
    "checkpoint": ("checkpoint", "info", "--json", "--debug"),
}


class Place:
    """A folder in which processes run, with secrets in their environment.

    Args:
        folder: The folder; what processes write is in it.
        server: The server of ``s3://data``.
    """

    def __init__(self, folder: Path, server: ObjectServer) -> None:
        self.server = server
        self.folder = folder
        planted = folder / "planted"  # the files that hold the secrets, which are not searched
        for name in ("planted", "home", "tmp", "work", "cache"):
            (folder / name).mkdir()
        account = {"private_key": SECRET, "private_key_id": SECRET, "client_email": "me@x", "gcs_base_url": server.url}
        (planted / "gcs.json").write_text(json.dumps(account))
        msc = {"access_key": KEY_ID, "secret_key": SECRET}
        profile = {
            "storage_provider": {"type": "s3", "options": {"base_path": "data", "endpoint_url": server.url}},
            "credentials_provider": {"type": "S3Credentials", "options": msc},
        }
        (planted / "msc.json").write_text(json.dumps({"profiles": {"mine": profile}}))
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ENERGON_"))},
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "PYTHONFAULTHANDLER": "1",
            "RUST_LOG": "trace",
            "RUST_BACKTRACE": "1",
            "ENERGON_CACHE_DIR": str(folder / "cache"),
            "ENERGON_STORAGE_OPTIONS": json.dumps({"": LIMITS}),
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_SESSION_TOKEN": SECRET,
            "AZURE_STORAGE_ACCOUNT_NAME": "someone",
            "AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(SECRET.encode()).decode(),
            "GOOGLE_APPLICATION_CREDENTIALS": str(planted / "gcs.json"),
            "MSC_CONFIG": str(planted / "msc.json"),
        }

    def run(self, command: Sequence[str], **changes: str) -> str:
        """Run a process; return its output."""
        done = subprocess.run(
            [sys.executable, *command],
            env={**self.environment, **changes},
            cwd=self.folder / "work",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=120,
            check=False,
        )
        return done.stdout

    def run_command(self, name: str, path: str, **changes: str) -> str:
        return self.run(["-m", "energon_cli", *COMMANDS[name], path], **changes)

    def train(self, path: str, workers: int, **changes: str) -> str:
        return self.run(["-c", _TRAIN, path, str(workers)], **changes)

    def check(self, outputs: Mapping[str, str]) -> None:
        """Assert that no output and no file holds a secret."""
        texts = {name: text.encode() for name, text in outputs.items()}
        for path in self.folder.rglob("*"):
            if path.is_file() and (self.folder / "planted") not in path.parents:
                texts[str(path.relative_to(self.folder))] = path.read_bytes()
        found = [(name, secret) for name, text in texts.items() for secret in forms() if secret in text]
        assert not found, {name: outputs.get(name, "")[-3000:] for name, _ in found}


def forms() -> list[bytes]:
    """Return the ways in which the secrets may be written."""
    encoded = base64.b64encode(SECRET.encode()).decode().rstrip("=")
    return [text.encode() for text in (SECRET, quote(SECRET, safe=""), quote(SECRET), encoded, KEY_ID)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = write_captions(tmp_path / "objects/data/ds")
    prepare(folder, compat=False)
    with ObjectServer(tmp_path / "objects") as server:
        yield Place(tmp_path, server)


def test_the_search_finds_what_is_written(place: Place) -> None:
    output = place.run(["-c", "import os; print(os.environ['AWS_SECRET_ACCESS_KEY'])"])
    with pytest.raises(AssertionError):
        place.check({"output": output})
    place.run(["-c", "import os; open('x', 'w').write(os.environ['AWS_ACCESS_KEY_ID'])"])
    with pytest.raises(AssertionError):
        place.check({})


def test_nothing_that_succeeds_writes_a_secret(place: Place) -> None:
    (place.folder / "objects/data/files").mkdir()
    (place.folder / "objects/data/files/a.jpg").write_bytes(caption_parts(0)["jpg"])
    outputs = {name: place.run_command(name, URL) for name in ("prepare", "info", "lint", "preview")}
    for output in outputs.values():
        assert output
        assert "Traceback" not in output, output
    outputs["prepare-media"] = place.run_command("prepare-media", "s3://data/files")
    outputs |= {f"training {workers}": place.train(URL, workers) for workers in (0, 2)}
    assert (place.folder / "work/state.json").exists()
    outputs["checkpoint"] = place.run_command("checkpoint", str(place.folder / "work/state.json"))
    assert [*(place.folder / "cache").rglob("blocks/*")]
    place.check(outputs)


@pytest.mark.parametrize("kind", ["400 echo", "403 echo", "500 echo"])
def test_a_service_that_refuses_all_requests_reveals_no_secret(place: Place, kind: str) -> None:
    place.server.faults = FaultPlan(faults=[Fault(kind=kind)])
    outputs = {name: place.run_command(name, URL) for name in ("prepare", "info", "preview")}
    outputs["training"] = place.train(URL, 2)
    assert all("Traceback" in output for output in outputs.values())
    place.check(outputs)


@pytest.mark.parametrize("kind", ["400 echo", "403 echo", "500 echo", "503", "reset", "short body", "wrong range"])
def test_shards_that_cannot_be_read_reveal_no_secret(place: Place, kind: str) -> None:
    place.server.faults = FaultPlan(faults=[Fault(kind=kind, key=".tar")])
    outputs = {"lint": place.run_command("lint", URL)}
    outputs |= {f"training {workers}": place.train(URL, workers) for workers in (0, 2)}
    assert "Traceback" in outputs["training 0"]
    assert "Traceback" in outputs["training 2"]
    place.check(outputs)


@pytest.mark.parametrize("kind", ["403 echo", ""])
@pytest.mark.parametrize("url", ["az://data/ds", "gs://data/ds", "msc://mine/ds", "http"])
def test_no_service_writes_a_secret(place: Place, url: str, kind: str) -> None:
    place.server.faults = FaultPlan(faults=[Fault(kind=kind)] if kind else ())
    url = f"{place.server.url}/data/ds" if url == "http" else url
    sas = f"sv=2022-11-02&sp=rl&sig={quote(SECRET, safe='')}"
    options = json.dumps({"": LIMITS, "az://data": {**LIMITS, "endpoint_url": place.server.url}})
    changes = {"ENERGON_STORAGE_OPTIONS": options, "AZURE_ENDPOINT": place.server.url}
    outputs = {"info": place.run_command("info", url, **changes)}
    outputs["with SAS"] = place.run_command("info", url, **changes, AZURE_STORAGE_SAS_TOKEN=sas)
    outputs["training"] = place.train(url, 2, **changes)
    place.check(outputs)


@pytest.mark.parametrize(
    "url",
    [
        f"https://me:{SECRET}@127.0.0.1:9/ds",
        f"https://127.0.0.1:9/ds?X-Amz-Signature={quote(SECRET, safe='')}",
        f"s3://{KEY_ID}:{SECRET}@data/ds",
        f"az://data/ds?sig={quote(SECRET, safe='')}",
    ],
)
def test_a_secret_in_a_url_is_not_repeated(place: Place, url: str) -> None:
    outputs = {name: place.run_command(name, url) for name in ("info", "lint", "prepare", "checkpoint")}
    outputs["training"] = place.train(url, 0)
    mix = {
        "__module__": "megatron.energon",
        "__class__": "MetadatasetV2",
        "splits": {"train": {"path": url, "aux": {"files": f"filesystem+{url}"}}},
    }
    (place.folder / "planted/mix.yaml").write_text(json.dumps(mix))
    outputs |= {
        f"mix, {name}": place.run_command(name, str(place.folder / "planted/mix.yaml")) for name in ("info", "lint")
    }
    outputs["mix"] = place.train(str(place.folder / "planted/mix.yaml"), 0)
    assert "must not hold credentials" in outputs["info"] or "no query" in outputs["info"]
    place.check(outputs)


@pytest.mark.parametrize("port", ["", ":9"], ids=["found", "refused"])
def test_a_secret_in_an_endpoint_is_not_repeated(place: Place, port: str) -> None:
    host = place.server.url.removeprefix("http://") if not port else f"127.0.0.1{port}"
    endpoint = f"http://me:{quote(SECRET, safe='')}@{host}"
    outputs = {name: place.run_command(name, URL, AWS_ENDPOINT_URL=endpoint) for name in ("info", "prepare")}
    outputs["training"] = place.train(URL, 2, AWS_ENDPOINT_URL=endpoint)
    options = json.dumps({"": {**LIMITS, "endpoint_url": endpoint}})
    outputs["option"] = place.run_command("info", URL, ENERGON_STORAGE_OPTIONS=options)
    outputs["training with option"] = place.train(URL, 2, ENERGON_STORAGE_OPTIONS=options)
    place.check(outputs)
