"""Paths, documents, stores, media and commands, as scripts of megatron-energon use and expect them."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import sqlite3
import subprocess
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import Enum
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from facts import Facts, one_process
from megatron.energon import (
    Cooker,
    DefaultTaskEncoder,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    cooker,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    stateless,
)
from megatron.energon.av import AVDecoder
from megatron.energon.dataset_config import get_dataset_from_config
from megatron.energon.epathlib import EPath, epath
from megatron.energon.metadataset import prepare_metadataset
from megatron.energon.metadataset.loader import load_dataset
from PIL import Image

sys.path.append(str(Path(__file__).parents[4]))  # with no package that the other library has
from tests.object_server import Fault, FaultPlan, ObjectServer

HOME = Path(sys.argv[1]) / "home"
HOME.mkdir()
os.environ |= {"HOME": str(HOME), "XDG_CONFIG_HOME": str(HOME / "xdg")}
for name in ("MSC_CONFIG", "NVDATASET_CACHE_DIR"):
    os.environ.pop(name, None)

DIFFERS = {
    "rotated_at_right_angles": "A rotation by -180 degrees has the height and width of the picture.",
    "circles_of_links": "`EPath.walk()` follows links to folders, but not in circles.",
}
PROVES = {
    "split_file_of_the_document": "A `split_config` in `dataset.yaml` replaces the one that the caller",
    "split_part_of_the_document": "A `split_part` there does the same: it is read by training and validation alike.",
    "rotated_pictures": "gives a picture that `RandomRotation(expand=True)` turns the size of torchvision.",
    "conversion_into_the_same_folder": (
        "`energon checkpoint redist` replaces the files of an earlier conversion, as there."
    ),
    "fewer_ranks_in_the_same_folder": "Fewer ranks than the folder has files of are no error there either;",
    "files_of_a_left_join": "`energon prepare meta.yaml` writes its file, too, if the file can express the join,",
    "audio_samples": "`audio_num_samples` of an MP4 file counts the samples of all blocks that decode.",
}

facts = Facts()
root = facts.folder
ENERGON = Path(sys.executable).with_name("energon")
V2 = "__module__: megatron.energon\n__class__: MetadatasetV2\n"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command of the library that this script runs with."""
    theirs = "site-packages" in (sys.modules["megatron.energon"].__file__ or "")
    command = [str(ENERGON)] if theirs else [sys.executable, "-m", "energon_cli"]
    return subprocess.run(
        [*command, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


# ------------------------------------------------------------------------------------------------------ documents


@facts.add
def split_file_of_the_document():
    meta = root / "captions/.nv-meta"
    text = (meta / "dataset.yaml").read_text()
    for name, shards in (("small", "000"), ("other", "{000..001}")):
        parts = "\n".join(f"  {part}: ['{part}/shard_{shards}.tar']" for part in ("train", "val"))
        (meta / f"{name}.yaml").write_text(f"split_parts:\n{parts}\nexclude: []\n")
    (root / "one.yaml").write_text(f"{V2}splits:\n  train: {{path: ./captions, split_config: other.yaml}}\n")
    (meta / "dataset.yaml").write_text(f"{text}\nsplit_config: small.yaml\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts = [
            len(facts.validation("captions")),
            len(facts.validation("captions", split_config="other.yaml")),
            len(facts.validation("one.yaml", split_part="train")),
            len(get_dataset_from_config(EPath(str(root / "captions")), split_part="val", worker_config=one_process())),
        ]
    (meta / "dataset.yaml").write_text(text)
    return [*counts, len(facts.validation("captions", split_config="other.yaml"))]


@facts.add
def split_part_of_the_document():
    meta = root / "captions/.nv-meta"
    text = (meta / "dataset.yaml").read_text()
    (root / "one.yaml").write_text(f"{V2}splits:\n  train: {{path: ./captions, split_part: train}}\n")
    counts = []
    for line in ("", "split_part: val\n", "split_part: train\n"):
        (meta / "dataset.yaml").write_text(f"{text}\n{line}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            counts += [
                len(facts.validation("captions")),
                len(facts.validation("captions", split_part="train")),
                len(facts.validation("one.yaml", split_part="train")),
                len(
                    get_dataset_from_config(
                        EPath(str(root / "captions")), split_part="train", worker_config=one_process()
                    )
                ),
            ]
    (meta / "dataset.yaml").write_text(f"{text}\nsplit_part: nowhere\n")
    try:
        facts.validation("captions")
    except Exception:  # noqa: BLE001 - of some kind
        counts.append("refused")
    (meta / "dataset.yaml").write_text(text)
    return counts


@facts.add
def shares_of_validation():
    entries = {"blend": ("weight: 1", "weight: 3"), "blend_epochized": ("repetitions: 1", "repetitions: 2")}
    found = []
    for kind, (first, second) in entries.items():
        blend = f"{kind}: [{{path: ./captions, {first}}}, {{path: ./captions2, {second}}}]"
        (root / "shares.yaml").write_text(f"{V2}splits:\n  train: {{{blend}}}\n  val: {{{blend}}}\n")
        loaded = load_dataset(EPath(str(root / "shares.yaml")))
        datasets = loaded.get_datasets(training=False, split_part="val", worker_config=one_process())
        shares = [(one.weight, one.repetitions) for one in datasets.datasets]
        found.append([datasets.blend_mode.name, shares, len(facts.validation("shares.yaml"))])
    return found


@facts.add
def primary_store_of_lines():
    @stateless
    @cooker(need_primary=True)
    def cook(sample: dict, primary) -> TextSample:
        number = int(sample["__key__"].rpartition("/")[2])
        before, _ = primary[f"{max(number - 1, 0)}.json"]
        return TextSample(**basic_sample_keys(sample), text=f"{before['text']}, {primary['.json'][0]['text']}")

    class Encoder(DefaultTaskEncoder):
        cookers = [Cooker(cook)]

    run("prepare", root / "lines.jsonl")
    dataset = get_val_dataset(
        root / "lines.jsonl", batch_size=None, worker_config=one_process(), task_encoder=Encoder()
    )
    return [sample.text for sample in get_savable_loader(dataset)][:3]


@facts.add
def files_of_a_left_join():
    (root / "left.yaml").write_text(
        f"{V2}splits:\n  train:\n    join: [{{path: captions}}, {{path: crude, nonmatch: none}}]\n"
        "    joiner: {__module__: megatron.energon, __class__: TextSample}\n"
    )
    prepare_metadataset(EPath(str(root / "left.yaml")))
    return sorted((path.name, path.stat().st_size) for path in (root / "left.yaml.cache").iterdir())


# ---------------------------------------------------------------------------------------------------------- paths


def write_profile(name: str, kind: str, options: str, *, secrets: bool = False) -> None:
    """Write the file of profiles, with one profile."""
    credentials = (
        "    credentials_provider:\n      type: S3Credentials\n      options:\n"
        "        access_key: planted\n        secret_key: planted\n"
    )
    (HOME / ".msc_config.yaml").write_text(
        f"profiles:\n  {name}:\n    storage_provider:\n      type: {kind}\n      options:\n        {options}\n"
        f"{credentials if secrets else ''}"
    )


write_profile("p", "file", f"base_path: {root}")


def form(url: str) -> list[str]:
    path = EPath(url)
    return [str(path), path.url, path.name, str(path.parent)]


@facts.add
def dots_of_urls():
    urls = ("msc://p/a/b/../c/./x.txt", "msc://p/a/./b/c", "/a/b/../c/x")
    return [form(url) for url in urls] + [pickle.loads(pickle.dumps(EPath(url))) == EPath(url) for url in urls]


@facts.add
def urls_of_rclone():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        path = EPath("rclone://p/a/x.txt")
    return [str(path), path == EPath("msc://p/a/x.txt"), [one.category.__name__ for one in caught]]


@facts.add
def pickles_without_secrets():
    write_profile("secret", "s3", "base_path: data\n        endpoint_url: http://127.0.0.1:9", secrets=True)
    return b"planted" in pickle.dumps(EPath("msc://secret/a"))


@facts.add
def profiles_that_appear_later():
    (root / "stored").mkdir()
    (root / "stored/x.txt").write_text("cat")
    write_profile("early", "file", f"base_path: {root / 'stored'}")
    found = [EPath("msc://early/x.txt").read_text()]
    try:
        EPath("msc://late/x.txt").read_text()
    except Exception as error:  # noqa: BLE001 - of some kind
        found.append("late" in str(error))
    write_profile("late", "file", f"base_path: {root / 'stored'}")
    return [*found, EPath("msc://late/x.txt").read_text()]


@contextmanager
def bucket(*faults: Fault) -> Iterator[tuple[ObjectServer, str]]:
    """Serve the folder ``buckets/data`` as a bucket; yield the server and the URL of a profile."""
    (root / "buckets/data").mkdir(parents=True, exist_ok=True)
    with ObjectServer(root / "buckets", faults=FaultPlan(faults=faults)) as server:
        options = ("base_path: data", f"endpoint_url: {server.url}", "region_name: us-east-1")
        write_profile(f"bucket{server.port}", "s3", "\n        ".join(options), secrets=True)
        yield server, f"msc://bucket{server.port}"


def removal(*faults: Fault) -> list[object]:
    """Remove an object; return if that fails, and the methods of the requests that remove."""
    with bucket(*faults) as (server, url):
        (root / "buckets/data/x.txt").write_text("cat")
        try:
            EPath(f"{url}/x.txt").unlink()
            has_failed = False
        except Exception:  # noqa: BLE001 - of some kind
            has_failed = True
        return [has_failed, [each.method for each in server.requests if each.method in ("POST", "DELETE")]]


@facts.add
def removal_of_an_object():
    return removal(Fault(kind="501", method="POST"))


@facts.add
def removal_by_a_request_that_the_server_does_not_know():
    return removal(Fault(kind="501", method="POST"), Fault(kind="501", method="DELETE"))


@facts.add
def media_metadata_in_a_bucket():
    with bucket() as (_, url):
        copy = shutil.copytree(root / "captions", root / "buckets/data/captions")
        shutil.rmtree(copy / ".nv-meta")
        options = (
            "--non-interactive",
            "--num-workers",
            "1",
            "--split-parts",
            "train:.*",
            "--sample-type",
            "CrudeWebdataset",
        )
        done = run("prepare", *options, "--media-metadata-by-extension", f"{url}/captions")
    assert done.returncode == 0, done.stderr[-1500:]
    with closing(sqlite3.connect(copy / ".nv-meta/index.sqlite")) as database:
        rows = database.execute("SELECT * FROM media_metadata ORDER BY entry_key").fetchall()
    return [len(rows), rows[:3]]


def linked_folders() -> Path:
    folder = root / "linked"
    for name in ("top/a/x.txt", "top/.hidden/y.txt", "other/z.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "top/link").symlink_to("../other")
    return folder / "top"


@facts.add
def walks_through_links():
    top = EPath(str(linked_folders()))
    return sorted(path.relative_to(top) for path in top.walk())


@facts.add
def circles_of_links():
    (root / "linked/top/a/up").symlink_to("..")
    top = EPath(str(root / "linked/top"))
    return sum(1 for _ in top.walk())


@facts.add
def versions_of_datasets():
    (root / "versions/coco/v1/sub").mkdir(parents=True)
    (root / "versions/coco/v1/sub/x.txt").write_text("cat")
    found = [epath.NVDATASET_CACHE_DIR is None]
    epath.NVDATASET_CACHE_DIR = EPath(str(root / "versions"))
    folder = EPath("dss://coco@v1")
    found += [
        [str(path) for path in folder.walk()],
        sorted(str(path) for path in folder.glob("**/*")),
        str(folder / "sub/../sub/x.txt"),
        str((folder / "sub/x.txt").with_suffix(".y")),
        (folder / "sub/x.txt").read_text(),
        folder.is_local(),
        str(pickle.loads(pickle.dumps(folder))),
    ]
    for url in ("dss://coco/sub", "dss://@v1/sub", "dss://coco@/sub"):
        try:
            found.append(str(EPath(url)))
        except Exception:  # noqa: BLE001 - of some kind
            found.append("refused")
    epath.NVDATASET_CACHE_DIR = None
    return found


# ---------------------------------------------------------------------------------------------- pictures and sound


def rotated(width: int, height: int, degrees: float) -> list[int]:
    """Return the size of a rotated picture, with classes that keep their settings as those of torchvision do."""
    import torch
    from megatron.energon.transforms import MergeTransform

    rotation = sys.modules["torchvision.transforms"].RandomRotation()
    vars(rotation).update(
        degrees=[degrees, degrees], expand=True, center=None, fill=0, interpolation=InterpolationMode.NEAREST
    )
    torch.manual_seed(0)
    return list(MergeTransform([rotation])(Image.new("RGB", (width, height))).size)


class InterpolationMode(Enum):
    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


def stand_in_for_torchvision() -> None:
    import torch

    names = (
        "Resize RandomResizedCrop CenterCrop RandomCrop RandomHorizontalFlip RandomVerticalFlip RandomRotation "
        "RandomPerspective"
    )
    package, module = types.ModuleType("torchvision"), types.ModuleType("torchvision.transforms")
    for name in names.split():
        setattr(module, name, type(name, (torch.nn.Module,), {"forward": lambda self, x: x}))
    module.RandomRotation.get_params = staticmethod(lambda degrees: degrees[0])
    module.InterpolationMode = InterpolationMode
    package.transforms = module
    module.functional = types.ModuleType("torchvision.transforms.functional")
    module.functional.InterpolationMode = InterpolationMode
    modes = (Image.Resampling.NEAREST, Image.Resampling.NEAREST, Image.Resampling.BILINEAR, Image.Resampling.BICUBIC)
    module.functional.pil_modes_mapping = dict(zip(InterpolationMode, modes, strict=True))
    sys.modules.update({found.__name__: found for found in (package, module, module.functional)})


stand_in_for_torchvision()


@facts.add
def rotated_pictures():
    return [rotated(37 + turn % 41, 20 + turn % 29, turn * 2.4 - 179) for turn in range(150)]


@facts.add
def rotated_at_right_angles():
    return rotated(37, 20, -180.0)


def write_sound(path: Path, *, samples: int) -> None:
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=25)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        audio = container.add_stream("aac", rate=44100, layout="mono")
        for number in range(5):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), number, np.uint8), format="rgb24")
            container.mux(video.encode(frame))
        container.mux(video.encode())
        for start in range(0, samples, 1024):
            count = min(1024, samples - start)
            data = (np.sin(np.arange(start, start + count) / 20) / 4).astype(np.float32)[None]
            sound = av.AudioFrame.from_ndarray(data, format="fltp", layout="mono")
            sound.sample_rate, sound.pts, sound.time_base = 44100, start, Fraction(1, 44100)
            container.mux(audio.encode(sound))
        container.mux(audio.encode())


@facts.add
def audio_samples():
    found = []
    for number, samples in enumerate((100_000, 44_100, 2048)):
        path = root / f"sound_{number}.mp4"
        write_sound(path, samples=samples)
        found.append(AVDecoder(path.open("rb")).get_metadata(get_audio_num_samples=True).audio_num_samples)
    return found


# -------------------------------------------------------------------------------------------------------- commands


@facts.add
def lines_of_prepare():
    options = (
        "--non-interactive",
        "--force-overwrite",
        "--split-parts",
        "train:.*",
        "--sample-type",
        "CrudeWebdataset",
    )
    done = run("prepare", *options, root / "crude")
    lines = run("prepare", root / "lines.jsonl")
    return ["Done" in done.stdout.splitlines(), re.findall(r"Found \d+ samples", lines.stdout), "Done" in lines.stdout]


def write_states(folder: Path) -> list[Path]:
    import torch

    folder.mkdir()
    paths = []
    for rank in range(2):
        dataset = get_train_dataset(
            root / "texts", batch_size=2, shuffle_buffer_size=None, max_samples_per_sequence=None,
            worker_config=WorkerConfig(rank=rank, world_size=2, num_workers=2),
        )  # fmt: skip
        loader = get_savable_loader(dataset)
        next(iter(loader))
        paths.append(folder / f"state_rank{rank}.pt")
        torch.save(loader.save_state_rank(), paths[-1])
    return paths


@facts.add
def conversion_into_the_same_folder():
    paths = write_states(root / "states")
    (root / "converted").mkdir()
    codes = [run("checkpoint", "redist", "--new-world-size", 4, *paths, root / "converted").returncode]
    first = (root / "converted/state_rank3.pt").read_bytes()
    (root / "converted/state_rank3.pt").write_bytes(b"damaged")
    codes.append(run("checkpoint", "redist", "--new-world-size", 4, *paths, root / "converted").returncode)
    again = (root / "converted/state_rank3.pt").read_bytes()
    return [codes, sorted(os.listdir(root / "converted")), again == first]


@facts.add
def fewer_ranks_in_the_same_folder():
    paths = sorted((root / "states").iterdir())
    return run("checkpoint", "redist", "--new-world-size", 2, *paths, root / "converted").returncode


facts.report()
