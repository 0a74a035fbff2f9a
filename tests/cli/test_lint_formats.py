"""``energon lint --format``: JSON, workflow commands of GitHub, and SARIF."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from energon_cli.commands.look.lint_output import github_commands
from energon_cli.main import main
from loader.format.dataset_ref import DatasetRef
from loader.inspect.browse import Catalogue, PageLinks
from loader.lint import Finding, LintReport
from loader.lint.samples import SampleFaults
from tests.cli.make_dataset import caption_parts, write_captions
from tests.cli.run_energon import RunEnergon
from tests.cli.test_browse import serve

ENDS = "\r\n\v\f\x85\u2028\u2029"


@pytest.fixture
def broken(tmp_path: Path, energon: RunEnergon) -> Path:
    """A dataset of 12 samples whose sample 4 has an invalid picture; its folder has a space in its name."""

    def parts(number: int) -> dict[str, bytes]:
        return caption_parts(number) | ({"jpg": b"<!DOCTYPE html>"} if number == 4 else {})

    folder = write_captions(tmp_path / "all, 100%: broken", parts=parts)
    assert energon("prepare", folder, "--yes").code == 0
    return folder


def test_the_format_json_is_that_of_the_flag(broken: Path, energon: RunEnergon) -> None:
    one, other = energon("lint", broken, "--json").json, energon("lint", broken, "--format", "json").json
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_json_and_another_format_exclude_each_other(broken: Path, energon: RunEnergon) -> None:
    assert energon("lint", broken, "--json", "--format", "sarif").code == 2


def test_a_workflow_command_for_each_finding(broken: Path, energon: RunEnergon) -> None:
    done = energon("lint", broken, "--format", "github")
    assert done.code == 1
    [line] = done.out.splitlines()
    head, _, message = line.removeprefix("::").partition("::")
    kind, _, properties = head.partition(" ")
    values = dict(one.split("=", 1) for one in properties.split(","))
    assert kind == "error"
    assert values["title"] == "E302 shard_001.tar/000004 [jpg]"
    assert unquote(values["file"]) == os.path.relpath(broken / "shard_001.tar")
    assert message.startswith("part 'jpg' is not an image")


def test_findings_link_to_the_pages_of_a_server_that_browses_the_dataset(broken: Path, energon: RunEnergon) -> None:
    with contextmanager(serve)(broken) as site:
        url = site.url
        [finding] = energon("lint", broken, "--browse", url, "--json").json["findings"]
        done = energon("lint", broken, "--browse", url)
        [result] = energon("lint", broken, "--browse", url, "--format", "sarif").json["runs"][0]["results"]
        page = urlsplit(finding["page"])
        status, headers, _ = site.get(f"{page.path}?{page.query}", token=None)
        catalogue = site.get("/api/catalogue")[2]
    assert f"\n  page: {finding['page']}\n" in done.out
    assert result["hostedViewerUri"] == finding["page"]
    assert status == 303
    assert headers["Location"] == "/s/all%2C%20100%25%3A%20broken/shard_001.tar/000004"
    assert broken.name.encode() in catalogue


def test_no_finding_has_a_page_without_a_server(broken: Path, energon: RunEnergon) -> None:
    assert energon("lint", broken, "--json").json["findings"][0]["page"] is None
    done = energon("lint", broken, "--browse", "127.0.0.1:8800")
    assert done.code == 2
    assert "expected the URL that energon browse printed, http://127.0.0.1:8800/ and its token" in done.err


def test_links_name_datasets_as_the_catalogue_does(tmp_path: Path) -> None:
    mix = tmp_path / "mix.yaml"
    for folder in ("a/x", "b/x", "y"):
        write_captions(tmp_path / folder)
        assert main(["prepare", str(tmp_path / folder), "--yes", "--quiet"]) == 0
    blend = ", ".join(f"{{weight: 1, path: {path}}}" for path in ("a/x", "b/x", "y"))
    head = "__module__: megatron.energon\n__class__: MetadatasetV2\n"
    mix.write_text(f"{head}splits: {{train: {{blend: [{blend}]}}}}\n")
    links = PageLinks("http://[::1]:80/?token=t", str(mix))
    catalogue = Catalogue([DatasetRef(str(mix))])
    for dataset in catalogue.datasets:
        page = links.url(dataset.folder.path, "s.tar", "k")
        assert page == f"http://[::1]:80/s/{dataset.name}/s.tar/k?token=t"
    assert [dataset.name for dataset in catalogue.datasets] == ["x", "x~2", "y"]
    catalogue.close()
    assert links.url(str(tmp_path / "y"), "s.tar", "a/b ü") == "http://[::1]:80/s/y/s.tar/a%2Fb%20%C3%BC?token=t"
    assert links.url(str(tmp_path / "y"), "s.tar", "..") == "http://[::1]:80/s/y/?token=t&shard=s.tar&key=.."
    assert links.url(str(tmp_path / "y"), "s.tar", "\udcff") is None
    assert links.url(str(tmp_path / "y"), "s.tar", None) is None


def test_no_text_of_a_dataset_starts_another_workflow_command() -> None:
    evil = f"a{'::error::'.join(ENDS)}\r\n::set-env name=PATH::x%0A,file=y"
    finding = Finding(SampleFaults.E302, evil, shard=evil, key=evil, part=evil, hint=evil)
    report = LintReport(findings=(finding,), complete=True, shards=1, samples=1, seconds=0)
    [line] = github_commands("/data/" + evil, report)
    assert not set(line) & set(ENDS)
    head, _, _ = line.removeprefix("::").partition("::")
    assert [one.partition("=")[0] for one in head.partition(" ")[2].split(",")] == ["file", "title"]


def check_sarif(log: Any) -> None:
    """Check what SARIF 2.1.0 requires of the objects that are used here (its sections 3.13 to 3.49)."""
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    for run in log["runs"]:
        assert set(run) <= {"tool", "invocations", "columnKind", "properties", "results"}
        driver = run["tool"]["driver"]
        assert driver["name"]
        rules = driver["rules"]
        assert len({rule["id"] for rule in rules}) == len(rules)
        for rule in rules:
            assert set(rule) <= {"id", "shortDescription", "fullDescription", "help", "defaultConfiguration"}
            assert all(rule[name]["text"] for name in ("shortDescription", "fullDescription", "help"))
            assert rule["defaultConfiguration"]["level"] in ("error", "warning")
        assert all(isinstance(one["executionSuccessful"], bool) for one in run["invocations"])
        for result in run["results"]:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            assert result["level"] in ("none", "note", "warning", "error")
            assert result["message"]["text"]
            for location in result["locations"]:
                physical = location["physicalLocation"]
                uri = physical["artifactLocation"]["uri"]
                assert uri.isascii()
                assert not set(uri) & set(' "<>\\^`{|}')
                urlsplit(uri)
                assert physical.get("region", {"byteOffset": 0})["byteOffset"] >= 0
                assert all(one["fullyQualifiedName"] for one in location.get("logicalLocations", ()))


def test_sarif_has_the_shard_the_offset_and_the_sample(broken: Path, energon: RunEnergon) -> None:
    done = energon("lint", broken, "--format", "sarif")
    assert done.code == 1
    check_sarif(done.json)
    [run] = done.json["runs"]
    [result] = run["results"]
    [location] = result["locations"]
    [finding] = energon("lint", broken, "--json").json["findings"]
    assert result["ruleId"] == "E302"
    assert unquote(urlsplit(location["physicalLocation"]["artifactLocation"]["uri"]).path) == str(
        broken / "shard_001.tar"
    )
    assert location["physicalLocation"]["region"]["byteOffset"] == finding["offset"]
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "shard_001.tar/000004 [jpg]"
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 1}]


def test_sarif_without_findings(prepared: Path, energon: RunEnergon) -> None:
    done = energon("lint", prepared, "--format", "sarif")
    assert done.code == 0
    check_sarif(done.json)
    assert done.json["runs"][0]["results"] == []


def test_sarif_of_a_metadataset_names_the_files_of_its_datasets(
    broken: Path, prepared: Path, energon: RunEnergon, tmp_path: Path
) -> None:
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        f"      - {{weight: 1, path: {str(broken)!r}}}\n      - {{weight: 1, path: missing}}\n"
    )
    done = energon("lint", mix, "--format", "sarif")
    check_sarif(done.json)
    assert {result["ruleId"] for result in done.json["runs"][0]["results"]} >= {"E502"}


def test_several_paths_make_one_report_and_one_exit_code(broken: Path, prepared: Path, energon: RunEnergon) -> None:
    assert energon("lint", prepared, prepared).code == 0
    done = energon("lint", prepared, broken, "--json")
    assert done.code == 1
    assert [(one["path"], one["errors"] > 0) for one in done.json] == [(str(prepared), False), (str(broken), True)]
    done = energon("lint", prepared, broken)
    assert (done.out.index(f"{prepared}:\n"), done.out.count(f"{broken}:\n")) == (0, 1)
    assert done.out.index("no findings") < done.out.index(f"{broken}:\n") < done.out.index("E302")
    log = energon("lint", broken, prepared, "--format", "sarif").json
    assert [len(run["results"]) for run in log["runs"]] == [1, 0]
    check_sarif({**log, "runs": log["runs"][:1]})
