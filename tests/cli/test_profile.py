"""``energon profile`` runs a script, and shows and traces what its loaders do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loader.prepare.plan import SplitRequest
from tests.e2e.dataset_tree import prepare, write_shards
from tests.forked_commands import program
from tests.forked_scripts import ForkedScripts
from tests.source_tree import ROOT

CONFIG = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
SCRIPT = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    """\
from itertools import islice
import pytest
import loader
from tests.logical_clock import install, spend

class Encoder(loader.DefaultTaskEncoder):
    def encode_sample(self, sample):
        spend(0.01)
        return sample
    batch = staticmethod(loader.batch_list)

def main(data, steps, exit_code):
    dataset = loader.get_train_dataset(
        data, worker_config=loader.WorkerConfig(rank=0, world_size=1, num_workers=2), task_encoder=Encoder(),
        batch_size=4, shuffle_buffer_size=None, max_samples_per_sequence=None,
    )
    for _ in islice(loader.get_loader(dataset, stats=False), int(steps)):
        pass
    print("trained")
    return int(exit_code)

if __name__ == "__main__":
    install(pytest.MonkeyPatch())
    sys.exit(main(*sys.argv[1:]))
"""
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_shards(tmp_path_factory.mktemp("profile") / "data", samples=20)
    prepare(folder, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": CONFIG})
    (folder.parent / "train.py").write_text(SCRIPT)
    return folder


def profile(*arguments: object) -> Any:
    command = [program(), "profile", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_a_script_is_profiled(data: Path, tmp_path: Path) -> None:
    trace, stats = tmp_path / "trace.json", tmp_path / "stats.json"
    done = profile("--steps", 10, "--trace", trace, "--stats", stats, data.parent / "train.py", data, 80, 0)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "step 80 · " in done.stderr
    assert "  the training loop waited for\n    " in done.stderr
    assert "\n    encode_sample " in done.stderr
    assert "bound by encode_sample: " in done.stderr, done.stderr
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["args"]["name"] for event in events if event["name"] == "thread_name"} == {
        "training loop",
        "worker 0",
        "worker 1",
    }
    assert len([event for event in events if event["name"] == "next"]) == 10
    document = json.loads(stats.read_text())
    numbers = document["loaders"][0]["numbers"]
    assert numbers["steps"] == 80
    assert numbers["waited_for/encode_sample_s"] > 0


def test_a_script_that_restores_a_state_is_profiled_before_and_after_it(
    data: Path, tmp_path: Path, scripts: ForkedScripts
) -> None:
    script, stats = tmp_path / "restoring.py", tmp_path / "stats.json"
    script.write_text(
        "import sys\n"
        "from itertools import islice\n"
        "import loader\n"
        "alone = loader.WorkerConfig(rank=0, world_size=1, num_workers=0)\n"
        "one = loader.get_loader(loader.get_train_dataset(sys.argv[1], worker_config=alone))\n"
        "deque = list(islice(one, 7))\n"
        "state = one.save_state_rank()\n"
        "deque = list(islice(one, 5))\n"
        "one.restore_state_rank(state)\n"
        "deque = list(islice(one, 3))\n"
        "one.restore_state_rank(state)\n"
    )
    arguments = [str(each) for each in ("profile", "--trace", tmp_path / "trace.json", "--stats", stats, script, data)]
    command = tmp_path / "command.py"
    command.write_text(f"from energon_cli.main import main\nassert main({arguments}) == 0\n")
    scripts.run(command, folder=ROOT)
    assert [one["numbers"]["steps"] for one in json.loads(stats.read_text())["loaders"]] == [12, 3]
    shown = command.with_suffix(".err").read_text()
    assert "step 12 · " in shown
    assert "step 10 · " in shown
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len([event for event in events if event["name"] == "next"]) == 15


def test_the_exit_code_and_the_options_are_the_scripts(data: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(sys.argv[1:])\nsys.exit(7)\n")
    done = profile("--trace", tmp_path / "trace.json", script, "--steps", "many", "-h")
    assert (done.returncode, done.stdout) == (7, "['--steps', 'many', '-h']\n")
    assert "the script took no micro-batch of a loader" in done.stderr


def test_a_missing_script_is_an_error(tmp_path: Path) -> None:
    done = profile(tmp_path / "none.py")
    assert done.returncode == 1
    assert "there is no such script" in done.stderr


@pytest.mark.parametrize("option", ["--trace", "--stats"])
def test_an_output_that_cannot_be_written_is_an_error_before_the_script_runs(option: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('ran')\n")
    for path, message in ((tmp_path, "found a folder"), (tmp_path / "gone" / "file.json", "there is no folder")):
        done = profile(option, path, script)
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr


def test_an_interrupted_script_ends_in_its_own_way(data: Path, tmp_path: Path) -> None:
    script = tmp_path / "saving.py"
    script.write_text(
        "import sys, time\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import train\n"
        "try:\n"
        "    train.main(sys.argv[2], 20, 0)\n"
        "    print('running', flush=True)\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(1)\n"
        "    print('saved')\n"
        "    sys.exit(3)\n"
    )
    command = [sys.executable, "-m", "energon_cli", "profile", "--trace", str(tmp_path / "trace.json"), str(script)]
    command += [str(data.parent), str(data)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["trained\n", "running\n"]
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    rest, _ = process.communicate(timeout=60)
    assert (process.returncode, rest) == (3, "saved\n")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
