"""Commands where torch is not installed: those that give tensors say what to install, and all others work."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from loader import WorkerConfig, get_savable_loader, get_train_dataset
from tests.cli.commands_without_packages import run_without
from tests.cli.make_dataset import picture, write_captions
from tests.cli.run_energon import RunEnergon
from tests.cli.test_commands import commands

FUNCTIONS = """
class Vectors:
    def __call__(self, texts):
        return [[len(text), 1.0] for text in texts]

def parts(sample):
    return len(sample)

def note(sample):
    return {"caption.note.txt": "seen"}

def caption(sample):
    return len(sample.caption)

def torch_inside(sample):
    import torch.nn
"""

MIX = """
__module__: megatron.energon
__class__: MetadatasetV2
splits: {train: {blend: [{path: data, weight: 1}]}}
"""

USES = """
demo demonstrated
import pictures imported --yes
prepare fresh --yes
prepare fresh --yes --force-overwrite
prepare-media pictures --media-metadata-by-header
info data
info mix.yaml
lint data
lint mix.yaml
rule
preview data
preview mix.yaml
stats data
explain data --steps 1 --world-size 1 --num-workers 1 --lanes 1
explain mix.yaml --steps 1 --lanes 1
plan data --balance 1 --lanes 1
trace data --step 1
trace state.json --step 1
trace state.pt --step 1
analyze-debug --dataset data --heatmap-path heat.png
get data 000000
get data 000000 json
extract data 000000 -o extracted
export data data.jsonl
reshard data resharded
index push data data.energon-index
index pull data.energon-index pulled --with-split
add-parts data added --from pictures --nonmatch none --rename jpg=image.new.jpg
exclude data --list
embed data --model minhash
embed data --model functions.py:Vectors --part txt
split data --check --near minhash
stats data --near-duplicates minhash
get data --like 000000 --column minhash
map texts functions.py:caption --show
map data functions.py:parts --raw --write parts
map data functions.py:note --raw --to-parts mapped
merge data resharded merged
split fresh --split-ratio 1,1,1
diff data data
diff state.json state.json
checkpoint info state.json
checkpoint info state.pt
checkpoint redist state.json two --new-world-size 2
checkpoint migrate state.json mix.yaml migrated
profile plan.py
doctor
completion bash
"""

NEED_TORCH = """
checkpoint redist state.pt three --new-world-size 2
trace data --step 1 --replay
get data --like 000000 --column embedding
map data functions.py:caption --write length
map data functions.py:caption --show
map data functions.py:torch_inside --raw --show
map data functions.py:torch_inside --raw --write nothing
map data torch_outside.py:function --raw --show
profile train.py
"""

PLAN = """
from loader import open_dataset

dataset = open_dataset("data")
assert dataset.parts(0)["txt"] == b"picture number 0" and "samples" in repr(dataset)
assert open_dataset("data", decoder=None)[0].caption == b"picture number 0"
try:
    dataset[0]
except ImportError as error:
    assert "pip install torch" in str(error)
else:
    raise AssertionError
"""


CAPTIONS = ["--non-interactive", "--split-ratio", "1,1", "--sample-type", "CaptioningSample", "--field-map"]


def test_only_commands_that_give_tensors_need_torch(tmp_path: Path, energon: RunEnergon) -> None:
    # Write data of some kinds, and the state of a run.
    write_captions(tmp_path / "fresh")
    write_captions(tmp_path / "texts", parts=lambda number: {"txt": b"text", "md": b"more"})
    write_captions(tmp_path / "data")
    for folder, image in (("texts", "md"), ("data", "jpg")):
        fields = json.dumps({"image": image, "caption": "txt"})
        assert energon("prepare", tmp_path / folder, *CAPTIONS, fields).code == 0
    (tmp_path / "pictures").mkdir()
    for number in range(3):
        (tmp_path / "pictures" / f"{number:06d}.jpg").write_bytes(picture(number))
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "torch_outside.py").write_text("import torch\n\ndef function(sample):\n    return 1")
    (tmp_path / "plan.py").write_text(PLAN)
    (tmp_path / "train.py").write_text("from loader import get_loader")
    (tmp_path / "mix.yaml").write_text(MIX)
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)
    loader = get_savable_loader(get_train_dataset(tmp_path / "mix.yaml", batch_size=1, worker_config=config))
    next(iter(loader))
    (tmp_path / "state.json").write_text(json.dumps(loader.save_state_rank()))
    torch.save({"loader": loader.save_state_rank()}, tmp_path / "state.pt")
    # Run the commands without torch.
    helps = [f"{name} --help" for name, _ in commands()]
    uses = [*helps, *USES.strip().splitlines(), *NEED_TORCH.strip().splitlines()]
    results, page, names = run_without(["torch"], uses, tmp_path, "data")
    failed = {use: text for use, (code, text) in zip(uses, results, strict=True) if code or "pip install torch" in text}
    assert list(failed) == NEED_TORCH.strip().splitlines(), failed
    assert all("pip install torch" in text for text in failed.values()), failed
    assert "picture number 0" in page
    assert "000000.jpg" in names
    used = {use.split()[0] for use in uses[len(helps) :]} | {"browse", "mount"}
    assert used == {name for name, _ in commands() if " " not in name}
