"""Options and credentials: how they come in, and that no secret comes out."""

from __future__ import annotations

import io
import json
import logging
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from energon_cli.main import main
from loader import SavableDataLoader, WorkerConfig, get_savable_loader, get_train_dataset
from loader.compat.webdataset_factory import prepare_dataset
from loader.errors import ConfigError, EnergonError
from loader.storage import EPath, open_storage
from loader.storage.remote import redact_urls, remember_options, use_storage_options
from loader.storage.remote.clients import choice
from loader.storage.remote.options import OPTIONS_VARIABLE, options_for
from loader.stores import DatasetFileStore
from tests.e2e.dataset_tree import prepare, write_shards
from tests.object_server import Fault, FaultPlan, ObjectServer

from .conftest import SECRET_KEY


@pytest.fixture(autouse=True)
def no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, "")


@pytest.fixture
def elsewhere(server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The options without which the dataset ``s3://data/ds`` is not found."""
    prepare(write_shards(tmp_path / "objects/data/ds", 4, samples=10), compat=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    return {"endpoint_url": server.url, "deadline_s": 20}


def loader_of(options: dict[str, Any], workers: int) -> SavableDataLoader[Any]:
    dataset = get_train_dataset(
        "s3://data/ds",
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers),
        batch_size=4,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        storage_options=options,
    )
    return get_savable_loader(dataset)


def test_options_of_a_longer_prefix_count_and_the_rest_stays() -> None:
    use_storage_options("/data/mix.yaml", {"region": "here", "stall_s": 3})
    use_storage_options("s3://data/ds", {"region": "there"})
    use_storage_options("/data/mix.yaml", {"s3://data/other": {"max_requests": 7}})
    assert (options_for("s3://data/ds").region, options_for("s3://data/ds").stall_s) == ("there", 3)
    assert (options_for("s3://data/other/x").region, options_for("s3://data/other/x").max_requests) == ("there", 7)
    assert (options_for("s3://database").region, options_for("gs://data").region) == ("here", "here")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aws_secret_access_key": "planted"}, "is a credential"),
        ({"sas_token": "planted"}, "is a credential"),
        ({"regoin": "x"}, "regoin"),
        ({"deadline_s": 0}, "above 0"),
        ({"s3://data": 5}, "options by name"),
        ({"s3://me:planted@data": {}}, "must not hold credentials"),
    ],
)
def test_wrong_options_are_refused_without_their_values(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        use_storage_options("s3://data/ds", options)
    assert "planted" not in str(caught.value)
    assert os.environ[OPTIONS_VARIABLE] == ""


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.sampled(2)
def test_options_reach_datasets_and_their_workers(elsewhere: dict[str, Any], workers: int) -> None:
    with loader_of(elsewhere, workers) as loader:
        batches = iter(loader)
        assert len([next(batches) for _ in range(20)]) == 20


def test_options_reach_stores_and_prepare(elsewhere: dict[str, Any]) -> None:
    store = DatasetFileStore("s3://data/ds", storage_options=elsewhere)
    assert store.get_path() == "s3://data/ds"
    os.environ[OPTIONS_VARIABLE] = ""
    with pytest.raises(ConfigError, match="gone"):
        prepare_dataset("s3://data/ds", ["gone.tar"], storage_options=elsewhere)


def test_the_commands_take_options(elsewhere: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    flags = [f"--storage-option={name.replace('_', '-')}={value}" for name, value in elsewhere.items()]
    assert main(["info", "s3://data/ds", "--json", *flags]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 40


@pytest.mark.parametrize(
    ("option", "message"),
    [("region", "KEY=VALUE"), ("secret=planted", "is a credential"), ("x=1", "options are")],
)
def test_a_wrong_option_of_a_command_is_named(option: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "s3://data/ds", "--storage-option", option]) != 0
    text = capsys.readouterr().err
    assert message in text
    assert "planted" not in text


# ------------------------------------------------------------------------------------------------------------ secrets

SECRETS = ("planted", SECRET_KEY)


def test_user_names_and_queries_are_removed_from_texts() -> None:
    text = "GET https://me:planted@host/a/b?X-Amz-Signature=planted&x=1, then s3://planted:pw@bucket/x failed"
    assert redact_urls(text) == "GET https://host/a/b?… then s3://bucket/x failed"


@pytest.mark.parametrize("url", ["dss://coco@v1/a", "filesystem+dss://coco@v1", "abfss://images@team.example/a@b"])
def test_names_of_datasets_and_containers_stay_in_texts(url: str) -> None:
    assert redact_urls(f"cannot read '{url}', {url}") == f"cannot read '{url}', {url}"
    protocol, _, rest = url.partition("://")
    for secret in ("me:planted", "me:plan/ted", "planted@me"):
        assert "plan" not in redact_urls(f"cannot read {protocol}://{secret}@{rest}")


def test_an_error_about_a_version_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="leads out of the bucket") as caught:
        EPath("dss://coco@v1/../../a")
    assert "dss://coco@v1/../../a" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["https://me:planted@host/ds", "s3://planted:pw@data/ds", "https://host/ds?sig=planted", "s3://data/x?planted"],
)
def test_a_url_with_a_secret_is_refused_without_it(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_storage(url)
    assert "planted" not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize("way", ["helper", "direct"])
@pytest.mark.parametrize("kind", ["403", "404", "500", "reset", "whole object", "short body"])
def test_no_secret_is_in_errors_logs_or_pickles(
    server: ObjectServer, way: str, kind: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(choice, "_is_told", way == "direct")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "planted-token")
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    monkeypatch.setattr(logging.getLogger(), "level", logging.DEBUG)
    try:
        remember_options("s3://data", {"deadline_s": 0.1})
        server.faults = FaultPlan(faults=[Fault(kind=kind)])
        storage = open_storage("s3://data/ds")
        for action in (
            lambda: storage.open("x").read_at(0, 9),
            lambda: storage.read("x"),
            lambda: list(storage.list()),
        ):
            try:
                action()
            except EnergonError as error:
                chain: BaseException | None = error
                while chain is not None:
                    log.write(f"{chain!r} {chain} {getattr(chain, '__dict__', '')}")
                    chain = chain.__cause__ or chain.__context__
        log.write(repr(storage) + repr(pickle.dumps(storage)) + os.environ[OPTIONS_VARIABLE])
    finally:
        logging.getLogger().removeHandler(handler)
    captured = capfd.readouterr()
    everything = log.getvalue() + captured.out + captured.err
    assert everything
    assert not [secret for secret in SECRETS if secret in everything]


def test_no_secret_is_in_states_or_on_the_disk(elsewhere: dict[str, Any], tmp_path: Path) -> None:
    with loader_of(elsewhere, 2) as loader:
        batches = iter(loader)
        batch = next(batches)
        state = repr(loader.save_state_rank()) + repr(batch)
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert not [secret for secret in SECRETS if secret in state or secret.encode() in files]


RCLONE = """
[{name}]
type = s3
provider = Other
access_key_id = a
secret_access_key = b
region = us-east-1
endpoint = {url}
"""
MSC = """
profiles:
  {name}:
    storage_provider: {{type: s3, options: {{base_path: '', region_name: us-east-1, endpoint_url: '{url}'}}}}
    credentials_provider: {{type: S3Credentials, options: {{access_key: a, secret_key: b}}}}
"""


@pytest.mark.parametrize(
    ("file", "direct"),
    [(("rclone/rclone.conf", RCLONE), True), (("msc/config.yaml", MSC), False)],
    ids=["rclone", "msc, by the helper process"],
)
@pytest.mark.sampled(2)
def test_a_profile_whose_file_has_changed_is_read_again_when_a_url_is_opened(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: tuple[str, str], direct: bool
) -> None:
    monkeypatch.setattr(choice, "_is_told", direct)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    path, text = tmp_path / "xdg" / file[0], file[1]
    path.parent.mkdir(parents=True)
    for folder, content in (("objects", "cat"), ("moved", "dog")):
        (tmp_path / folder / "data").mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "data/x").write_text(content)
    path.write_text(text.format(name="p", url=server.url))
    before = open_storage("msc://p/data")
    assert before.read("x") == b"cat"
    with ObjectServer(tmp_path / "moved") as moved:
        path.write_text(text.format(name="p", url=moved.url))
        assert open_storage("msc://p/data").read("x") == b"dog"
        assert before.read("x") == b"cat"
        assert EPath("msc://p/data/x").read_text() == "dog"
        requests = len(server.requests)
        assert open_storage("msc://p/data").read("x") == b"dog"
        assert len(choice._connections) == 2
        assert len(server.requests) == requests


def test_each_file_that_may_have_profiles_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = pytest.importorskip("multistorageclient.config")
    for name, folder in (("XDG_CONFIG_HOME", "xdg"), ("XDG_CONFIG_DIRS", "a:b"), ("PATH", "bin")):
        monkeypatch.setenv(name, ":".join(str(tmp_path / part) for part in folder.split(":")))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/rclone").touch(mode=0o755)
    monkeypatch.setenv("MSC_CONFIG", str(tmp_path / "msc.json"))
    rclone = ("bin/rclone.conf", "xdg/rclone/rclone.conf", ".config/rclone/rclone.conf", ".rclone.conf")
    paths = [Path(path) for path in config._find_config_file_paths()] + [tmp_path / name for name in rclone]
    written = [path for path in (*paths, tmp_path / "msc.json") if path.is_relative_to(tmp_path)]
    assert len(written) == 15
    states = {choice.open_url("msc://p").profiles}
    for path in written:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        states.add(choice.open_url("msc://p").profiles)
    assert len(states) == 16


def test_a_profile_of_rclone_that_appears_later_is_known(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "objects/data/x").write_text("cat")
    with pytest.raises(ConfigError, match="cannot use the profile 'late'"):
        EPath("msc://late/data/x").read_text()
    (tmp_path / "xdg/rclone").mkdir(parents=True)
    (tmp_path / "xdg/rclone/rclone.conf").write_text(RCLONE.format(name="late", url=server.url))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert EPath("msc://late/data/x").read_text() == "cat"
    (tmp_path / "xdg/rclone/rclone.conf").write_text(
        (tmp_path / "xdg/rclone/rclone.conf").read_text().replace("[late]", "[later]")
    )
    assert EPath("msc://later/data/x").read_text() == "cat"
