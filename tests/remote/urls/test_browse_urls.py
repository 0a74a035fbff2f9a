"""``energon browse`` of a dataset in an object store."""

from __future__ import annotations

import json

import pytest

from tests.remote.urls.bucket import Bucket

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def test_a_dataset_in_a_bucket_is_browsed_and_a_thumbnail_reads_its_part_once(bucket: Bucket) -> None:
    from tests.cli.test_browse import serve

    for site in serve(f"{bucket.url}/a"):
        rows = json.loads(site.get("/api/d/0/rows?count=3")[2])["rows"]
        assert len(rows) == 3
        path = f"/api/d/0/{rows[1]['n']}/thumbnail?part={rows[1]['picture']}"
        before = len(bucket.server.requests)
        status, headers, data = site.get(path)
        assert (status, headers["Content-Type"], data[:3]) == (200, "image/jpeg", b"\xff\xd8\xff")
        of_shard = [one for one in bucket.server.requests[before:] if one.key.endswith(rows[1]["shard"])]
        reads = [one for one in of_shard if one.method == "GET"]
        assert len(reads) == 1
        before = len(bucket.server.requests)
        assert site.get(path)[2] == data
        assert len(bucket.server.requests) == before
