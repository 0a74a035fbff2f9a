"""Form of ``__key__``: ``<shard>/<key>`` by default, the bare key with ``key_format="key"``."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from loader import (
    Cooker,
    DefaultTaskEncoder,
    FileStore,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    cooker,
    get_savable_loader,
    get_val_dataset,
    random_access,
    stateless,
)
from loader.errors import ConfigError
from loader.format.jsonl.index import prepare_jsonl
from loader.prepare.plan import SplitRequest
from loader.storage import open_storage
from tests.e2e.dataset_tree import prepare, write_shard
from tests.e2e.text_dataset import CRUDE, TEXT, exclude, write_texts

SHARD = "train_0.tar"
BARE, FULL = ["00000", "00001"], [f"{SHARD}/00000", f"{SHARD}/00001"]
WHOLE = SplitRequest(patterns=(("train", ".*"),))
LOADED = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nsample_loader: sample_loader.py:load\n"


def one(workers: int = 0, **options: Any) -> WorkerConfig:
    return WorkerConfig(rank=0, world_size=1, num_workers=workers, **options)


def samples(path: Path, *, workers: int = 0, config: WorkerConfig | None = None, **options: Any) -> list[Any]:
    dataset = get_val_dataset(
        path, split_part="train", batch_size=None, worker_config=config or one(workers), **options
    )
    return list(get_savable_loader(dataset))


def keys(path: Path, **options: Any) -> list[str]:
    return [sample["__key__"] if isinstance(sample, dict) else sample.__key__ for sample in samples(path, **options)]


def texts(folder: Path, *, config: str = TEXT, train: tuple[int, ...] = (2,)) -> Path:
    return write_texts(folder, train=train, val=(1,), config=config)


@pytest.mark.parametrize("config", [TEXT, CRUDE], ids=["typed", "crude"])
@pytest.mark.parametrize("workers", [0, 2])
def test_argument(tmp_path: Path, config: str, workers: int) -> None:
    path = texts(tmp_path / "d", config=config)
    assert sorted(keys(path, workers=workers)) == FULL
    assert sorted(keys(path, workers=workers, key_format="key")) == BARE


def test_argument_beats_file_beats_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, described = texts(tmp_path / "plain"), texts(tmp_path / "described", config=TEXT + "key_format: shard/key\n")
    monkeypatch.setenv("ENERGON_KEY_FORMAT", "key")
    assert keys(plain) == BARE
    assert keys(described) == FULL
    assert keys(described, key_format="key") == BARE
    monkeypatch.delenv("ENERGON_KEY_FORMAT")
    (described / ".nv-meta/dataset.yaml").write_text(TEXT + "key_format: key\n")
    assert keys(described) == BARE
    assert keys(described, key_format="shard/key") == FULL


def test_unknown_formats_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = texts(tmp_path / "d")
    with pytest.raises(ConfigError, match="expected key_format to be"):
        samples(path, key_format="bare")
    monkeypatch.setenv("ENERGON_KEY_FORMAT", "bare")
    with pytest.raises(ConfigError, match="the environment variable ENERGON_KEY_FORMAT"):
        samples(path)
    (path / ".nv-meta/dataset.yaml").write_text(TEXT + "key_format: bare\n")
    with pytest.raises(ConfigError, match='key_format: expected "shard/key" or "key", found \'bare\''):
        samples(path)


def test_all_leaves_of_a_mix(tmp_path: Path) -> None:
    texts(tmp_path / "a")
    texts(tmp_path / "b", config=TEXT + "key_format: shard/key\n")
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "{__module__: megatron.energon, __class__: MetadatasetV2, splits: {train: {blend: [{path: a}, {path: b}]}}}"
    )
    assert keys(mix) == FULL + FULL
    assert keys(mix, key_format="key") == BARE + BARE


def test_lines_of_a_jsonl_file(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    prepare_jsonl(open_storage(tmp_path), "lines.jsonl")
    assert keys(path) == ["lines.jsonl/0", "lines.jsonl/1"]
    assert keys(path, key_format="key") == ["0", "1"]


def test_batches_and_restored_samples(tmp_path: Path) -> None:
    path = texts(tmp_path / "d")
    dataset = get_val_dataset(path, split_part="train", batch_size=2, worker_config=one(), key_format="key")
    loader = get_savable_loader(dataset)
    (batch,) = loader
    assert batch.__key__ == BARE
    assert loader.restore_sample(batch.__restore_key__).__key__ == BARE
    full = get_savable_loader(get_val_dataset(path, split_part="train", batch_size=2, worker_config=one()))
    assert full.restore_sample(batch.__restore_key__).__key__ == FULL  # a restore key has no sample keys
    assert random_access(path, key_format="key")[1].__key__ == "00001"


def test_a_state_restores_with_the_other_format(tmp_path: Path) -> None:
    path = texts(tmp_path / "d", train=(6,))

    def open_loader(**options: Any) -> Any:
        return get_savable_loader(
            get_val_dataset(path, split_part="train", batch_size=1, worker_config=one(lanes=1), **options)
        )

    loader = open_loader()
    steps = iter(loader)
    next(steps)
    state = loader.save_state_rank()
    bare = open_loader(key_format="key")
    bare.restore_state_rank(state)
    assert [f"{SHARD}/{batch.__key__[0]}" for batch in bare] == [batch.__key__[0] for batch in steps]


def test_error_handlers(tmp_path: Path) -> None:
    path = texts(tmp_path / "d", train=(3,))
    seen: list[str] = []

    class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
        @stateless
        def encode_sample(self, sample: TextSample) -> TextSample:
            if sample.__key__.endswith("1"):
                raise ValueError(sample.__key__)
            return sample

    def handler(error: Exception, sample: Any, sources: Any) -> None:
        seen.append(sample.__key__)

    config = one(global_error_handler=handler)
    assert keys(path, config=config, task_encoder=Encoder(), key_format="key") == ["00000", "00002"]
    assert seen == ["00001"]


def test_handlers_of_samples_that_do_not_decode(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    write_shard(folder / "train_0.tar", {"a": {"json": b"{}"}, "b": {"json": b"{"}})
    prepare(folder, split=WHOLE, files={"dataset.yaml": CRUDE})
    seen: list[str] = []
    config = one(global_error_handler=lambda error, sample, sources: seen.append(sample["__key__"]))
    assert keys(folder, config=config, key_format="key") == ["a"]
    assert seen == ["b"]


@pytest.mark.parametrize("key_format", ["key", "shard/key"])
def test_a_sample_loader_finds_both_forms(tmp_path: Path, key_format: str) -> None:
    path = texts(tmp_path / "d", config=LOADED)
    (path / ".nv-meta/sample_loader.py").write_text(
        "def load(raw):\n"
        "    bare = raw['__key__'].rpartition('/')[2]\n"
        "    assert raw[bare + '.txt'] == raw[raw['__shard__'] + '/' + bare + '.txt'] == raw['txt']\n"
        "    assert raw[raw['__key__'] + '.txt'] == raw['txt']\n"
        "    return {'__key__': raw['__key__'] + '-loaded', 'text': raw['__key__']}\n"
    )
    expected = BARE if key_format == "key" else FULL
    found = samples(path, trust_code=True, key_format=key_format)
    assert [sample.text for sample in found] == expected
    assert [sample.__key__ for sample in found] == [f"{key}-loaded" for key in expected]


def test_a_sample_loader_may_return_its_argument(tmp_path: Path) -> None:
    path = texts(tmp_path / "d", config=LOADED)
    (path / ".nv-meta/sample_loader.py").write_text(
        "def load(raw):\n    raw['text'] = raw.pop('txt')\n    return raw\n"
    )
    assert [sample.text for sample in samples(path, trust_code=True)] == ["text 0", "text 1"]


@pytest.mark.parametrize("key_format", ["key", "shard/key"])
def test_stores_find_both_forms(tmp_path: Path, key_format: str) -> None:
    write_shard(tmp_path / "d/s_0.tar", {"1": {"txt": b"one"}})
    write_shard(tmp_path / "d/s_1.tar", {"1": {"txt": b"uno"}})  # a key of two shards
    prepare(tmp_path / "d", split=WHOLE, files={"dataset.yaml": CRUDE})
    write_shard(tmp_path / "aux/other_9.tar", {"1": {"label": b"l"}})
    prepare(tmp_path / "aux", split=WHOLE, files={"dataset.yaml": CRUDE})
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/1.note").write_bytes(b"n")
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "{__module__: megatron.energon, __class__: MetadatasetV2, splits: {train: {path: d, "
        f"aux: {{aux: aux, plain: 'filesystem://{tmp_path}/plain'}}}}}}}}"
    )

    @stateless
    @cooker(need_primary=True)
    def cook(sample: Any, aux: FileStore[Any], plain: FileStore[Any], primary: FileStore[Any]) -> TextSample:
        key = sample["__key__"]
        bare = key.rpartition("/")[2]
        labels = {aux.get(f"{name}.label", sample) for name in (key, bare, f"other_9.tar/{bare}")}
        notes = {plain.get(f"{name}.note", sample) for name in (key, bare)}
        own = primary.get(".txt", sample), primary.get(f"{sample['__shard__']}/{bare}.txt", sample)
        return TextSample(**basic_sample_keys(sample), text=f"{key} {own} {labels} {notes}")

    class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = None
        cookers = [Cooker(cook)]

    found = [sample.text for sample in samples(mix, task_encoder=Encoder(), key_format=key_format)]
    names = ["1", "1"] if key_format == "key" else ["s_0.tar/1", "s_1.tar/1"]
    texts_of = [(b"one", b"one"), (b"uno", b"uno")]
    assert found == [f"{name} {own} { {b'l'} } { {b'n'} }" for name, own in zip(names, texts_of, strict=True)]


def test_dataset_classes_receive_the_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loader import DefaultDecoderWebdatasetFactory

    class Poems(DefaultDecoderWebdatasetFactory[TextSample]):
        __sample_type__ = TextSample

        def __init__(self, path: Any, **kwargs: Any) -> None:
            super().__init__(path, field_map={"text": "txt"}, **kwargs)

        def sample_filter(self, key: str) -> bool:
            return key == "00001"

    module = ModuleType("poems_of_the_user")
    module.Poems = Poems  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "poems_of_the_user", module)
    path = texts(tmp_path / "d", config="{__module__: poems_of_the_user, __class__: Poems, key_format: key}")
    assert keys(path) == ["00001"]
    (path / ".nv-meta/dataset.yaml").write_text("{__module__: poems_of_the_user, __class__: Poems}")
    assert [sample.__key__ for sample in samples(path, key_format="key")] == ["00001"]


@pytest.mark.parametrize("name", ["00003", "train_1.tar/00003"])
def test_exclude_accepts_both_forms(tmp_path: Path, name: str) -> None:
    path = texts(tmp_path / "d", train=(2, 3))
    exclude(path, name, "nothing")
    assert keys(path, key_format="key") == ["00000", "00001", "00002", "00004"]


def test_a_bare_key_of_two_shards_excludes_both_samples(tmp_path: Path) -> None:
    write_shard(tmp_path / "s_0.tar", {"1": {"txt": b""}, "2": {"txt": b""}})
    write_shard(tmp_path / "s_1.tar", {"1": {"txt": b""}})
    prepare(tmp_path, split=WHOLE, files={"dataset.yaml": CRUDE})
    exclude(tmp_path, "1")
    assert keys(tmp_path) == ["s_0.tar/2"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exclude:\nexclude: [train_0.tar]\n", ["00002", "00003"]),
        ("exclude: [train_0.tar]\nexclude: []\n", ["00000", "00001", "00002", "00003"]),
        ("exclude:\n", ["00000", "00001", "00002", "00003"]),
    ],
    ids=["empty, then given", "given, then empty", "empty"],
)
def test_the_last_of_several_excludes_is_used(tmp_path: Path, text: str, expected: list[str]) -> None:
    path = texts(tmp_path / "d", train=(2, 2))
    (path / ".nv-meta/split.yaml").write_text(f"split_parts:\n  train: [train_0.tar, train_1.tar]\n{text}")
    if text.count("exclude") == 1:
        assert keys(path, key_format="key") == expected
        return
    with pytest.warns(UserWarning, match="'exclude' is given twice, first on line 3; the last one is used"):
        assert keys(path, key_format="key") == expected
