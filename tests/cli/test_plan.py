"""``energon plan``: imbalance, fill and padding of planned steps, of datasets and scripts; and costs by stats."""

from __future__ import annotations

import io
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from loader import WorkerConfig, get_savable_loader, get_train_dataset
from loader.dataset.opening import folder_at
from loader.encoder_costs import qwen2_5_vl
from loader.format.columns.column_files import open_column, write_column
from tests.cli.run_energon import RunEnergon
from tests.e2e.dataset_tree import prepare, write_shard
from tests.e2e.text_dataset import write_texts


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_texts(tmp_path_factory.mktemp("plan") / "texts", train=(400, 500), val=(5,))
    dataset = folder_at(folder)
    lengths = np.clip(np.exp(np.random.default_rng(0).normal(5, 1, len(dataset))), 16, 1024).astype(np.int64)
    write_column(dataset.storage, dataset.index, "tokens", lengths)
    return folder


def test_balanced_steps_are_compared_with_unplanned_ones_on_several_ranks(texts: Path, energon: RunEnergon) -> None:
    done = energon("plan", texts, "--balance", "tokens", "--batch-size", 4, "--world-size", "2,8", "--json")
    assert done.code == 0
    few, many = done.json["steps"]
    assert (few["ranks"], many["ranks"], few["micro_batch_samples"]) == (2, 8, 4)
    for facts in (few, many):
        (cost,) = facts["costs"]
        assert cost["name"] == "tokens"
        assert 1 <= cost["bound"] <= cost["planned"]["mean"] < cost["unplanned"]["mean"]
        assert cost["planned"]["mean"] <= cost["planned"]["p99"] <= cost["planned"]["worst"]
    assert done.json["run"]["sources"][0]["epochs"] == pytest.approx(1, abs=0.1)
    table = energon("plan", texts, "--balance", "tokens", "--batch-size", 4, "--world-size", "2,8").out
    assert "max/mean" in table
    assert "a node reads" in table


def test_the_fill_of_packs_and_the_padding_of_micro_batches_are_shown(texts: Path, energon: RunEnergon) -> None:
    packed = energon("plan", texts, "--packing", "best_fit", "--pack-capacity", "tokens=2048", "--json").json
    (cost,) = packed["steps"][0]["costs"]
    assert cost["unplanned"]["fill"] < cost["planned"]["fill"] <= 1
    assert cost["planned"]["padding"] is None
    padded = energon("plan", texts, "--batch-cost", "tokens=4096", "--padded", "--lanes", 4, "--json").json
    (cost,) = padded["steps"][0]["costs"]
    assert cost["planned"]["padding"] < 0.5 * cost["unplanned"]["padding"]


def test_samples_that_are_left_out_fill_no_pack(tmp_path: Path, energon: RunEnergon) -> None:
    dataset = folder_at(write_texts(tmp_path / "texts", train=(400, 500), val=(5,)))
    costs = 1 + np.arange(len(dataset)) % 99
    costs[::40] = 1000
    write_column(dataset.storage, dataset.index, "tokens", costs)
    options = ("--packing", "best_fit", "--pack-capacity", "tokens=300", "--lanes", 2, "--json")
    facts = {
        oversized: energon("plan", tmp_path / "texts", *options, "--oversized", oversized).json["steps"][0]
        for oversized in ("skip", "alone")
    }
    (skipped,), (alone,) = facts["skip"]["costs"], facts["alone"]["costs"]
    assert 0.9 < skipped["planned"]["fill"] <= 1 < alone["planned"]["fill"]
    assert 0.5 < skipped["unplanned"]["fill"] <= skipped["planned"]["fill"]
    assert skipped["micro_batch"] <= 300
    assert facts["skip"]["samples"] == 900 - int((costs[:900] == 1000).sum()) < facts["alone"]["samples"] == 900


def test_a_script_is_run_up_to_its_first_loader(texts: Path, tmp_path: Path, energon: RunEnergon) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\n"
        "from loader import WorkerConfig, get_loader, get_train_dataset\n"
        "config = WorkerConfig(rank=0, world_size=4, num_workers=2)\n"
        "print('of the script')\n"
        "dataset = get_train_dataset(sys.argv[1], worker_config=config, balance='tokens', batch_size=4)\n"
        "get_loader(dataset)\n"
        f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    )
    assert [steps["ranks"] for steps in energon("plan", script, texts, "--json").json["steps"]] == [4]
    assert not (tmp_path / "ran").exists()
    # The lanes of the script hold for other numbers of ranks, if they divide them.
    script.write_text(script.read_text().replace("num_workers=2", "num_workers=2, lanes=8"))
    other, own = energon("plan", script, texts, "--world-size", "2,4", "--json").json["steps"]
    assert (other["ranks"], own["ranks"], other["window"]) == (2, 4, own["window"])
    refused = energon("plan", script, texts, "--world-size", 3)
    assert refused.code == 1
    assert "expected lanes to be a multiple of world_size=3, found 8" in refused.err
    script.write_text("raise SystemExit(3)")
    done = energon("plan", script)
    assert done.code == 1
    assert "the script ended with exit code 3" in done.err
    script.write_text("print('no loader')")
    assert "the script made no loader" in energon("plan", script).err


def test_a_planned_run_is_traced_by_its_arguments(texts: Path, energon: RunEnergon) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)
    dataset = get_train_dataset(
        texts, worker_config=config, balance="tokens", batch_size=4, shuffle_buffer_size=20, max_samples_per_sequence=5
    )
    batches = [*islice(get_savable_loader(dataset), 6)]
    order = ("--shuffle-buffer-size", 20, "--max-samples-per-sequence", 5, "--lanes", 4, "--step", 5, "--json")
    done = energon("trace", texts, "--balance", "tokens", "--batch-size", 4, *order)
    assert [json.loads(line)["key"] for line in done.out.splitlines()] == batches[5].__key__


def test_wrong_options_are_named(texts: Path, energon: RunEnergon) -> None:
    for arguments, message in (
        ([texts], "Name what is planned: --balance"),
        ([texts, "--balance", "tokens", "more"], "Arguments are for scripts"),
        ([texts, "--balance", "words"], "words"),
        ([texts, "--balance", "tokens", "--world-size", "2,0"], "expected numbers of ranks above 0"),
        ([texts, "--packing", "best_fit", "--pack-capacity", "tokens"], "expected COST=N, found 'tokens'"),
        ([texts, "--balance", "tokens", "--world-size", "8", "--lanes", "12"], "expected a multiple of --world-size 8"),
        ([texts, "--packing", "best_fit", "--pack-capacity", "tokens=x"], "expected COST=N, found 'tokens=x'"),
        ([texts, "--packing", "best_fit"], "expected pack_capacity to name the capacity of each cost"),
    ):
        done = energon("plan", *arguments)
        assert done.code in (1, 2)
        assert message in done.err


def test_costs_of_a_model_are_written_as_columns(tmp_path: Path, energon: RunEnergon) -> None:
    sizes = [(640, 480), (200, 1), (56, 900), (1000, 1000)]
    samples = {}
    for number, size in enumerate(sizes):
        content = io.BytesIO()
        Image.new("RGB", size).save(content, "PNG")
        samples[f"{number:03d}"] = {"png": content.getvalue(), "txt": b"a b"}
    samples["004"] = {"txt": b"no picture"}
    write_shard(tmp_path / "shard_000.tar", samples)
    prepare(tmp_path, split=None)
    done = energon("stats", tmp_path, "--write-costs", "qwen2.5-vl:max_pixels=501760")
    assert done.code == 0
    assert "wrote column vision_tokens" in done.err
    dataset = folder_at(tmp_path)
    width, height = np.array(sizes).T
    expected = qwen2_5_vl(width, height, max_pixels=501_760)
    column = open_column(dataset.storage, dataset.index, "vision_tokens")
    known = ~np.isnan(expected.tokens)
    assert column.values[:4][known].tolist() == expected.tokens[known].tolist()
    assert column.is_known().tolist() == [*known.tolist(), True]
    assert column.values[4] == 0
    assert open_column(dataset.storage, dataset.index, "pictures").values.tolist() == [1, 1, 1, 1, 0]
    assert energon("stats", tmp_path, "--write-costs", "gpt").code == 1
