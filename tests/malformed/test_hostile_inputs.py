"""Hostile inputs × commands: each ends in little time and memory, says why, and touches nothing else.

``pytest -m slow -rP tests/malformed/test_hostile_inputs.py`` prints the time and memory of each.
"""

from __future__ import annotations

import bz2
import functools
import gzip
import os
import pickle
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from pyarrow import feather

from tests.hostile_inputs import (
    MIB,
    Content,
    Measured,
    array_header,
    large_json,
    measure,
    member,
    npz,
    png,
    repeated,
    tar_head,
    write_members,
    write_tar,
    zeros_in,
)

CPU_SECONDS = 30  # of the processor, which other processes of a busy machine do not take
MIB_ABOVE_IDLE = 300
MIB_BELOW_A_LIMIT = 1536
CODES = {0, 1, 2}
SECRET = "5ecret-of-this-machine"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
EVIL = "\x1b]0;title\x07\x9b2J\u202e"

LOAD = """
import sys
from loader import EnergonError, WorkerConfig, get_loader, get_val_dataset
try:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    for batch in get_loader(get_val_dataset(sys.argv[1], split_part="train", batch_size=1, worker_config=config)):
        pass
except EnergonError as error:
    print(error)
    sys.exit(1)
except BaseException as error:
    print(repr(error))
    sys.exit(3)
"""

BROWSE = """
import json, subprocess, sys, urllib.error, urllib.parse, urllib.request
command = [sys.executable, "-m", "energon_cli", "browse", sys.argv[1], "--json", "--token", "t"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
    line = server.stdout.readline()
    if line:
        site = "http://" + urllib.parse.urlsplit(json.loads(line)["url"]).netloc
        for page in ("/", "/api/catalogue", "/api/d/0/rows?count=100", "/api/d/0/1", "/api/d/0/1/thumbnail"):
            request = urllib.request.Request(site + page, headers={"Authorization": "Bearer t"})
            try:
                print(page, urllib.request.urlopen(request, timeout=60).status)
            except urllib.error.HTTPError as error:
                print(page, error.code)
        server.terminate()
sys.exit(server.wait())
"""

ENERGON = ("-m", "energon_cli")
OF_TARS = {
    "import": (*ENERGON, "import", "{path}", "{out}/i", "--yes", "--max-failures", "100%"),
    "raw info": (*ENERGON, "info", "{path}"),
    "raw lint": (*ENERGON, "lint", "{path}"),
    "raw preview": (*ENERGON, "preview", "{path}", "-n", "3"),
    "prepare": (*ENERGON, "prepare", "{path}", "--yes", "--split-ratio", "1,0,0", "--sample-type", "CrudeWebdataset"),
}
OF_DATASETS = {
    "info": (*ENERGON, "info", "{path}"),
    "lint": (*ENERGON, "lint", "{path}"),
    "preview": (*ENERGON, "preview", "{path}", "-n", "3"),
    "stats": (*ENERGON, "stats", "{path}"),
    "get": (*ENERGON, "get", "{path}", "1"),
    "extract": (*ENERGON, "extract", "{path}", "-o", "{out}/x", "--format", "tar"),
    "export": (*ENERGON, "export", "{path}", "{out}/e"),
    "reshard": (*ENERGON, "reshard", "{path}", "{out}/r"),
    "browse": ("-c", BROWSE, "{path}"),
    "load": ("-c", LOAD, "{path}"),
}
OF_MIXES = {name: OF_DATASETS[name] for name in ("info", "lint", "preview", "stats", "get", "extract", "load")}
NAMED = {"import by root": (*OF_TARS["import"], "--root", "{path}/..", "--no-allow-outside")}
LINKED = {"import without links": (*OF_TARS["import"], "--no-follow-links")}
TABLES = {
    "import": OF_TARS["import"],
    "download": (*OF_TARS["import"][:4], "{out}/d", "--yes", "--max-failures", "100%", "--download"),
    "prepare": OF_TARS["prepare"],
    **{name: OF_DATASETS[name] for name in ("info", "lint", "preview")},
}

Build = Callable[[Path], Path]


def shards(**parts: Content | Callable[[], bytes]) -> Build:
    """Return what writes a shard of three samples with these parts: ``json_1`` is the part json of sample 1."""

    def build(folder: Path) -> Path:
        members: dict[str, Content] = {f"{number}.txt": b"a caption" for number in range(3)}
        for name, content in parts.items():
            part, number = name.split("_")
            members[f"{number}.{part}"] = content() if callable(content) else content
        write_tar(folder / "s_0.tar", dict(sorted(members.items())))
        return folder

    return build


def raw_members(members: Callable[[], list[tuple[tarfile.TarInfo, Content]]]) -> Build:
    def build(folder: Path) -> Path:
        write_members(folder / "s_0.tar", [(member("0.txt"), b"a caption"), *members()])
        return folder

    return build


def prepared(name: str, content: Content) -> Build:
    """Return what prepares a small dataset, and then replaces a file in .nv-meta."""

    def build(folder: Path) -> Path:
        path = shards()(folder)
        done = run(OF_TARS["prepare"], path, folder.parent)
        assert done.code == 0, done.output
        with (path / ".nv-meta" / name).open("wb") as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                content[1](file)
        return path

    return build


def table(name: str, rows: Callable[[Path], str]) -> Build:
    def build(folder: Path) -> Path:
        path = folder / name
        path.write_text(rows(folder.parent))
        return path

    return build


def paths_outside(root: Path) -> str:
    secret = root / "secret.txt"
    cells = [f"file://{secret}", str(secret), "../../secret.txt", "file:///etc/passwd", "/etc/passwd", f"a\x1b{secret}"]
    return "image,caption\n" + "".join(f'"{cell}",caption {n}\n' for n, cell in enumerate(cells))


def private_urls(root: Path) -> str:
    hosts = ["127.0.0.1", "169.254.169.254", "[::1]", "0x7f.1", "localhost", "2130706433", "[::ffff:169.254.169.254]"]
    return "image,caption\n" + "".join(f"http://{host}:9/a.jpg?key={SECRET},a caption\n" for host in hosts)


def links_out(folder: Path) -> Path:
    for n, target in enumerate((folder.parent / "secret.txt", "/etc/passwd", "../secret.txt", "/dev/zero")):
        (folder / f"{n}.txt").symlink_to(str(target))
    (folder / "etc").symlink_to("/etc")
    (folder / "a.txt").write_text("a caption")
    os.mkfifo(folder / "f.txt")
    return folder


def pipes(folder: Path) -> Path:
    shards()(folder)
    os.mkfifo(folder / "s_1.tar")
    (folder / "s_2.tar").symlink_to("/dev/zero")
    (folder / "s_3.tar").symlink_to("/dev/tty")
    return folder


def zip_of(name: str, member_name: str, size_bytes: int) -> Build:
    def build(folder: Path) -> Path:
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            for number in range(2):
                with file.open(f"{number}{member_name}", "w", force_zip64=True) as part:
                    for _ in range(size_bytes // MIB):
                        part.write(bytes(MIB))
        return folder / name

    return build


def zip_leaving(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "a.zip", "w") as file:
        for name in ("../x.txt", "/x.txt", "a/../../../y.txt", f"{EVIL}.txt", "0.txt", "C:\\x.txt"):
            file.writestr(name, "a caption")
        link = zipfile.ZipInfo("l.txt")
        link.external_attr = 0o120777 << 16
        file.writestr(link, "/etc/passwd")
    return folder / "a.zip"


def compressed(name: str, head: bytes, size_bytes: int = 1 << 30) -> Build:
    def build(folder: Path) -> Path:
        path = folder / name
        with path.open("wb") as file:
            if path.suffix == ".zst":
                packed: Any = zstandard.ZstdCompressor().stream_writer(file, closefd=False)
            else:
                packed = (
                    gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1)
                    if path.suffix == ".gz"
                    else bz2.BZ2File(file, "wb")
                )
            zeros_in(packed, size_bytes, head=head)
        return path

    return build


def lines_of(name: str, content: Content) -> Build:
    def build(folder: Path) -> Path:
        assert not isinstance(content, bytes)
        with (folder / name).open("wb") as file:
            content[1](file)
        return folder / name

    return build


def arrow_of_zeros(folder: Path) -> Path:
    table = pa.table({"image": [bytes(600 * MIB)], "caption": ["a caption"]})
    feather.write_feather(table, str(folder / "a.arrow"), compression="zstd")
    return folder / "a.arrow"


def mix_of_itself(folder: Path) -> Path:
    path = folder / "mix.yaml"
    blend = "".join(f"    - {{path: {name}}}\n" for name in ("mix.yaml", "./mix.yaml", "../in/mix.yaml"))
    path.write_text(f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n{blend}")
    return path


class Planted:
    """An object whose unpickling writes a file."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("echo > planted",)


def hostile_names() -> list[tuple[tarfile.TarInfo, Content]]:
    names = ["../../a", "/etc/cron.d/b", f"{EVIL}c", "d\ne", "f\rg", "h/../../../i", "-j", "~/k", "\u202el", "x" * 3000]
    links = [
        ("m.txt", tarfile.SYMTYPE, "/etc/passwd"),
        ("n.txt", tarfile.LNKTYPE, "/etc/passwd"),
        ("o", tarfile.CHRTYPE, ""),
    ]
    return [
        *((member(f"{name}.txt"), b"a caption") for name in names),
        *((member(name, kind, target=target), b"") for name, kind, target in links),
        (member("../" * 30 + "tmp/p", tarfile.SYMTYPE, target="/etc"), b""),
        (member("q.pyd"), pickle.dumps(Planted())),
    ]


def pickles(folder: Path) -> Path:
    data = pickle.dumps(Planted())
    array = array_header("(1,)", "|O") + data
    return shards(pickle_0=data, pyd_1=data, npy_1=array, npz_2=npz(array), pth_2=data)(folder)


def many_records() -> list[tuple[tarfile.TarInfo, Content]]:
    records = b"".join(b"19 k%07d=value\n" % number for number in range(1_000_000))
    return [(member("x", tarfile.XHDTYPE), records), (member("1.txt"), b"a caption")]


def long_name() -> list[tuple[tarfile.TarInfo, Content]]:
    return [(member("././@LongLink", tarfile.GNUTYPE_LONGNAME), repeated(b"a", 200_000_000)), (member("x"), b"a")]


def millions_of_keys(folder: Path) -> Path:
    text = b"{" + b",".join(b'"%07d":0' % number for number in range(5_500_000)) + b"}"
    return shards(json_1=text)(folder)


def many_parts() -> list[tuple[tarfile.TarInfo, Content]]:
    return [(member(f"1.p{number:05}"), b"x") for number in range(10_000)]


def numbers(folder: Path) -> Path:
    floats = b'{"a": 1e999, "b": -1e999, "c": NaN, "d": Infinity, "caption": "c"}'
    integer, deep = b'{"a": ' + b"9" * 100_000 + b"}", b'{"a":[' * 500_000 + b"1" + b"]}" * 500_000
    return shards(json_0=floats, json_1=integer, json_2=deep)(folder)


def aliases(head: bytes) -> bytes:
    lines = [b"l%d: &l%d [%s]\n" % (n, n, b", ".join([b"*l%d" % (n - 1)] * 10)) for n in range(1, 12)]
    return b"l0: &l0 [ha]\n" + b"".join(lines) + head + b": *l11\n"


LAST_PIXELS, TOO_MANY_PIXELS = 13_370, 178_956_971  # The limit is 178,956,970.
DATASETS = OF_TARS | OF_DATASETS
JSONL = repeated(b'["a",1],', 225_000_000, head=b'{"image": "a.jpg", "caption": [', tail=b"0]}")
LIST = repeated(
    b'{"image": "a.jpg", "caption": "c", "x": [%s]},\n' % (b"1,2," * 9999 + b"3"), 225_000_000, head=b"[", tail=b"{}]"
)
COCO = repeated(
    b'{"id": 1, "image_id": 1, "bbox": [1, 2, 3, 4], "segmentation": [[%s]]},\n' % (b"1.5, 2.5, " * 99 + b"3"),
    225_000_000,
    head=b'{"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [',
    tail=b'{"image_id": 2}]}',
)
SPLIT = repeated(b"- s_0.tar/0000\n", 60_000_000, head=b"split_parts: {train: [s_0.tar]}\nexclude:\n")

# Training decodes what its dataset holds: 225 MB of JSON become 4 GB, and so do the most pixels of a picture.
LOOKS = {name: command for name, command in DATASETS.items() if name != "load"}
# Name → what writes it, and the commands that read it.
INPUTS: dict[str, tuple[Build, dict[str, tuple[str, ...]]]] = {
    "a JSON part of 225 MB": (shards(json_1=large_json(225_000_000)), LOOKS),
    "JSON parts below 16 and 64 MiB": (
        shards(json_0=large_json(16 * MIB - 9), json_1=large_json(64 * MIB - 9)),
        DATASETS,
    ),
    "a JSON object of millions of keys below 64 MiB": (millions_of_keys, DATASETS),
    "numbers without end and deep nesting": (numbers, DATASETS),
    "a picture of too many pixels": (shards(png_1=lambda: png(TOO_MANY_PIXELS, 1, mode=0)), DATASETS),
    "a picture below the limit of pixels": (shards(png_1=lambda: png(LAST_PIXELS, LAST_PIXELS)), LOOKS),
    "a PAX header of a million records": (raw_members(many_records), DATASETS),
    "a GNU name of 200 MB": (raw_members(long_name), DATASETS),
    "a sample of 10,000 parts": (raw_members(many_parts), DATASETS),
    "pipes and devices named like shards": (pipes, DATASETS),
    "names and links that lead out": (raw_members(hostile_names), DATASETS),
    "pickles": (pickles, DATASETS),
    "arrays without end": (
        shards(
            npy_0=array_header("(99999999999, 99)"),
            npy_1=array_header("(-1, 5)"),
            npz_1=npz(array_header("(1 << 40,)")),
        ),
        DATASETS,
    ),
    "a member of 8 GB that ends at once": (
        raw_members(lambda: [(member("1.txt", size_bytes=8 << 30), b"a")]),
        DATASETS,
    ),
    "a dataset.yaml of 60 MB": (prepared("dataset.yaml", repeated(b"- [a, b]\n", 60_000_000)), OF_DATASETS),
    "a split.yaml of 4,000,000 lines": (prepared("split.yaml", SPLIT), OF_DATASETS),
    "references that expand in dataset.yaml": (prepared("dataset.yaml", aliases(b"subflavors")), OF_DATASETS),
    "references that expand in split.yaml": (prepared("split.yaml", aliases(b"split_parts")), OF_DATASETS),
    "a metadataset of itself": (mix_of_itself, OF_MIXES),
    "a zip of zeros": (zip_of("a.zip", ".txt", 512 * MIB), TABLES),
    "a zip whose members lead out": (zip_leaving, TABLES),
    "a tar.gz of zeros": (compressed("a.tar.gz", tar_head("0.txt", 1 << 30)), TABLES),
    "a tar.bz2 of zeros": (compressed("a.tar.bz2", tar_head("0.txt", 1 << 28), 1 << 28), TABLES),
    "a tar.zst of zeros": (compressed("a.tar.zst", tar_head("0.txt", 1 << 30)), TABLES),
    "a csv.gz of zeros": (compressed("a.csv.gz", b"image,caption\n"), TABLES),
    "a jsonl.zst of zeros": (compressed("a.jsonl.zst", b'{"a": "'), TABLES),
    "a line of JSON of 225 MB": (lines_of("a.jsonl", JSONL), TABLES),
    "a folder with a line of JSON of 225 MB": (
        lambda folder: lines_of("a.jsonl", JSONL)(folder).parent,
        {name: DATASETS[name] for name in ("prepare", "info", "lint", "preview", "stats")},
    ),
    "a JSON list of 225 MB of objects": (lines_of("a.json", LIST), {"import": TABLES["import"]}),
    "a COCO file of 225 MB": (lines_of("a.json", COCO), {"import": TABLES["import"]}),
    "an Arrow file of zeros": (arrow_of_zeros, {"import": TABLES["import"]}),
    "a table of paths outside": (table("a.csv", paths_outside), TABLES | NAMED),
    "a table of private URLs": (table("a.csv", private_urls), TABLES),
    "a folder of links out": (
        links_out,
        {name: TABLES[name] for name in ("import", "prepare", "info", "lint")} | LINKED,
    ),
}
BELOW_A_LIMIT = {name for name in INPUTS if " below " in name}
QUICK = {
    ("names and links that lead out", "raw lint"),
    ("pickles", "load"),
    ("a table of paths outside", "import by root"),
}


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A folder with one for the input, one for the output, and others that nothing may change."""
    for name in ("in", "out", "work", "tmp", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "secret.txt").write_text(SECRET)
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)  # some hundred megabytes


def run(command: tuple[str, ...], path: Path, root: Path) -> Measured:
    arguments = [word.replace("{path}", str(path)).replace("{out}", str(root / "out")) for word in command]
    folders = {"TMPDIR": str(root / "tmp"), "HOME": str(root / "home"), "XDG_CACHE_HOME": str(root / "home")}
    return measure(arguments, root / "work", folders)


@functools.cache
def idle_mib(name: str, folder: Path) -> float:
    """Return the memory of a command for a small input."""
    root = folder / re.sub(r"\W", "_", f"{name} {os.getpid()}")
    for each in ("in", "out", "work", "tmp", "home"):
        (root / each).mkdir(parents=True)
    if name == "download":
        return run(TABLES[name], table("a.csv", lambda _: "text,caption\na,b\n")(root / "in"), root).peak_mib
    path = shards()(root / "in")
    if name in OF_DATASETS:
        run(DATASETS["prepare"], path, root)
    return run(DATASETS[name], path, root).peak_mib


def faults_of(command: str, done: Measured, root: Path) -> Iterator[str]:
    """Yield what no input may cause, but for time and memory; remove what was written to the output."""
    if done.code not in CODES:
        yield f"exit code {done.code}"
    if "Traceback (most recent call last)" in done.output and command != "load":  # loaders log that of a skipped sample
        yield "a traceback"
    if "this is a bug" in done.output:
        yield "an error that no command expects"
    if control := CONTROLS.search(done.output):
        yield f"it prints {control[0]!r}"
    written = [path for path in (root / "out").rglob("*") if path.is_file() and path.stat().st_size < 64 * MIB]
    for place, data in [("the output", done.output.encode()), *((str(path), path.read_bytes()) for path in written)]:
        if SECRET.encode() in data or b"root:x:0:" in data:
            yield f"{place} holds what no user named"
    outside = [path for name in ("work", "tmp", "home") for path in (root / name).rglob("*")]
    if outside or {path.name for path in root.iterdir()} != {"in", "out", "work", "tmp", "home", "secret.txt"}:
        yield f"files outside of the output: {outside or list(root.iterdir())}"
    shutil.rmtree(root / "out")
    (root / "out").mkdir()


def check(name: str, command: str, path: Path, root: Path, idle: Path) -> list[str]:
    """Run a command and return its faults."""
    done = run(INPUTS[name][1][command], path, root)
    print(
        f"| {name} | {command} | exit {done.code} | {done.seconds:.1f} s, {done.cpu_seconds:.1f} s of processor time "
        f"| {done.peak_mib:.0f} MiB |"
    )
    faults = list(faults_of(command, done, root))
    if done.cpu_seconds > CPU_SECONDS:
        faults.append(f"{done.cpu_seconds:.1f} s of processor time")
    allowed = MIB_BELOW_A_LIMIT if name in BELOW_A_LIMIT else MIB_ABOVE_IDLE
    if done.peak_mib > allowed and done.peak_mib > allowed + idle_mib(command, idle):
        faults.append(f"{done.peak_mib - idle_mib(command, idle):.0f} MiB above the idle command")
    return [f"{command}: {fault}\n{done.output[-1500:]}" for fault in faults]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", INPUTS)
def test_no_command_takes_more_than_its_share_for_a_hostile_input(
    name: str, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write, commands = INPUTS[name]
    path = write(root / "in")
    idle = tmp_path_factory.getbasetemp() / "idle"
    faults = [fault for command in commands for fault in check(name, command, path, root, idle)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(("name", "command"), sorted(QUICK))
def test_a_few_of_them_quickly(name: str, command: str, root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = INPUTS[name][0](root / "in")
    assert not check(name, command, path, root, tmp_path_factory.getbasetemp() / "idle")
