"""Shards stay open, but no more than a process may hold."""

from __future__ import annotations

import resource

import pytest

from loader.pipeline.reading.shard_reads import OpenShards


class File:
    is_open = True

    def close(self):
        assert self.is_open
        self.is_open = False


def names_of(shards, files):
    return [name for name in files if shards.find(name) is not None]


def test_a_file_that_is_kept_is_found_by_its_number():
    shards = OpenShards(9)
    one, two = File(), File()
    assert shards.add(1, one) is one
    shards.add(1 << 32, two)
    assert (shards.find(1), shards.find(1 << 32), shards.find(0)) == (one, two, None)


def test_the_one_that_was_opened_first_is_closed_where_there_are_too_many():
    shards = OpenShards(3)
    files = {number: File() for number in range(7)}
    for number, (name, file) in enumerate(files.items()):
        shards.add(name, file)
        first = max(0, number - 2)
        assert names_of(shards, files) == list(range(first, number + 1))
    assert [file.is_open for file in files.values()] == [False] * 4 + [True] * 3


def test_one_that_was_closed_may_be_opened_again():
    shards = OpenShards(1)
    for _ in range(3):
        for name in (0, 1):
            file = shards.add(name, File())
            assert shards.find(name) is file


def test_all_can_be_closed():
    shards = OpenShards()
    files = [shards.add(number, File()) for number in range(5)]
    shards.close()
    shards.close()
    assert not any(file.is_open for file in files)
    assert shards.find(0) is None


@pytest.mark.parametrize(("may_open", "most"), [(20, 16), (1024, 256), (1 << 20, 4096)])
def test_most_of_what_a_process_may_open_is_left_to_others(may_open, most, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (may_open, 1 << 20))
    shards = OpenShards()
    files = [shards.add(number, File()) for number in range(most + 3)]
    assert sum(file.is_open for file in files) == most
