"""Requests to an object store by a process with the answers that another one got."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader import WorkerConfig, get_loader, get_train_dataset
from loader.storage.shared_answers import Answers, use_answers
from tests.e2e.text_dataset import write_texts
from tests.object_server import ObjectServer

URL = "s3://bucket/texts"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    (tmp_path / "store/bucket").mkdir(parents=True)
    write_texts(tmp_path / "store/bucket/texts")
    with ObjectServer(tmp_path / "store") as server:
        options = {"s3://bucket": {"endpoint_url": server.url}}
        monkeypatch.setenv("ENERGON_STORAGE_OPTIONS", json.dumps(options))
        yield server


def open_and_load() -> tuple[object, list[str]]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    dataset = get_train_dataset(
        URL, worker_config=config, batch_size=4, shuffle_buffer_size=10, max_samples_per_sequence=5
    )
    return dataset, [key for _, batch in zip(range(3), get_loader(dataset), strict=False) for key in batch.__key__]


def documents_in(server: ObjectServer) -> list[str]:
    """Return the requests for all but shards and the columns of the index, and forget all."""
    found = [one for one in server.requests if not one.key.endswith((".tar", ".npy"))]
    server.requests.clear()
    return [f"{one.method} {one.key}" for one in found]


def test_no_document_is_asked_for_twice(server: ObjectServer) -> None:
    recorded = Answers()
    with use_answers(recorded):
        _, keys = open_and_load()
    assert documents_in(server)
    sent = pickle.loads(pickle.dumps(recorded.found))  # as from one rank to another
    with use_answers(Answers(sent)):
        _, again = open_and_load()
    assert documents_in(server) == []
    assert again == keys


def test_what_is_not_recorded_is_asked_for(server: ObjectServer) -> None:
    with use_answers(Answers({})):
        _, keys = open_and_load()
    assert documents_in(server)
    assert open_and_load()[1] == keys
