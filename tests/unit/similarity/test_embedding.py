"""Models as functions of a map: ready classes of packages, and classes of the user."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from loader.errors import ConfigError, SampleError, SkipSample
from loader.similarity import embedding, embedding_of

PARTS = ("json", "jpg", "txt", "txt.gz")


def picture(number: int) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(number).integers(256, size=(20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def pixels_of(image: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(image.resize((4, 4)), np.float32).reshape(-1) / 255)


def tiny_network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(48, 8)


def fake_open_clip(calls: list[Any]) -> Any:
    """A package with the functions of open_clip that are used, around a tiny network."""
    module: Any = types.ModuleType("open_clip")

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = tiny_network()

        def encode_image(self, pictures: torch.Tensor) -> torch.Tensor:
            return self.network(pictures)  # type: ignore[no-any-return]

        def encode_text(self, tokens: torch.Tensor) -> torch.Tensor:
            return tokens.float() @ torch.ones(3, 8)

    def create(architecture: str, *, pretrained: str | None) -> tuple[Any, None, Any]:
        calls.append((architecture, pretrained))
        return Model(), None, pixels_of

    module.create_model_and_transforms = create
    module.get_tokenizer = lambda architecture: lambda texts: torch.tensor([[len(text), 1, 2] for text in texts])
    return module


def fake_timm(calls: list[Any]) -> Any:
    module: Any = types.ModuleType("timm")

    def create(name: str, **options: Any) -> torch.nn.Module:
        calls.append((name, options))
        return tiny_network()

    module.create_model = create
    module.data = types.SimpleNamespace(
        resolve_model_data_config=lambda model: {"input_size": (3, 4, 4)},
        create_transform=lambda *, input_size, is_training: pixels_of,
    )
    return module


def fake_sentence_transformers(calls: list[Any]) -> Any:
    module: Any = types.ModuleType("sentence_transformers")

    class SentenceTransformer:
        def __init__(self, name: str, *, local_files_only: bool) -> None:
            calls.append((name, local_files_only))

        def encode(self, texts: list[str], *, batch_size: int, show_progress_bar: bool) -> Any:
            assert not show_progress_bar
            return np.array([[len(text), 1.0] for text in texts], np.float32)

    module.SentenceTransformer = SentenceTransformer
    return module


def test_ready_classes_load_a_model_once_without_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setitem(sys.modules, "open_clip", fake_open_clip(calls))
    monkeypatch.setitem(sys.modules, "timm", fake_timm(calls))
    monkeypatch.setitem(sys.modules, "sentence_transformers", fake_sentence_transformers(calls))
    samples = [{"jpg": picture(number), "txt": b"text" * (number + 1)} for number in range(3)]
    for model, part, expected in (
        ("open_clip:ViT-B-32/laion", "jpg", ("ViT-B-32", "laion")),
        ("open_clip:ViT-B-32@/weights.pt", "txt", ("ViT-B-32", "/weights.pt")),
        ("timm:resnet18", "jpg", ("resnet18", {"pretrained": True, "num_classes": 0})),
        ("sentence-transformers:mini", "txt", ("mini", True)),
    ):
        embedding = embedding_of(model, PARTS, at="data", part=part)
        assert (embedding.metric, embedding.batch_size) == ("cosine", 64)
        function = pickle.loads(pickle.dumps(embedding.function)).load()
        vectors = np.stack(function(samples) + function(samples[:1]))
        assert calls == [expected]
        assert vectors.dtype == np.float16
        assert np.linalg.norm(vectors.astype(np.float32), axis=1) == pytest.approx(np.ones(4), abs=1e-3)
        assert (vectors[0] == vectors[3]).all()
        calls.clear()


def test_packages_of_models_are_imported_offline_and_samples_are_read_online(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "timm.py").write_text('import os\nOFFLINE = os.environ["HF_HUB_OFFLINE"]\n')
    assert embedding._imported("timm", "timm").OFFLINE == "1"
    assert "HF_HUB_OFFLINE" not in os.environ
    del sys.modules["timm"]  # which pytest restores only if it was there before


def test_torchvision_takes_weights_of_a_file_and_vectors_before_the_last_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.fc = tiny_network(), torch.nn.Linear(8, 1000)

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            return self.fc(self.body(pictures))  # type: ignore[no-any-return]

    models: Any = types.ModuleType("torchvision.models")
    models.get_model = lambda name, weights: Model()
    default = types.SimpleNamespace(transforms=lambda: pixels_of)
    models.get_model_weights = lambda name: types.SimpleNamespace(DEFAULT=default)
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    torch.save(Model().state_dict(), tmp_path / "weights.pth")
    function = embedding_of(f"torchvision:tiny@{tmp_path / 'weights.pth'}", PARTS, at="data").function.load()
    assert function([{"jpg": picture(0)}])[0].shape == (8,)
    for model, part in (("torchvision:tiny", "jpg"), (f"torchvision:tiny@{tmp_path / 'weights.pth'}", "txt")):
        with pytest.raises(ConfigError):
            embedding_of(model, PARTS, at="data", part=part).function.load()


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ConfigError, match="pip install timm"):
        embedding_of("timm:vit_tiny", PARTS, at="data").function.load()
    monkeypatch.setitem(sys.modules, "timm", types.ModuleType("timm"))
    with pytest.raises(ConfigError, match=r"cannot load the model: AttributeError: .*\n.*timm:vit_tiny"):
        embedding_of("timm:vit_tiny", PARTS, at="data").function.load()


def test_the_users_class_gets_pictures_or_texts(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(
        "import numpy as np\n"
        "class Means:\n"
        "    def __call__(self, pictures):\n"
        "        assert all(picture.mode == 'RGB' for picture in pictures)\n"
        "        return np.array([np.asarray(picture).mean(axis=(0, 1)) for picture in pictures])\n"
        "def lengths(texts):\n"
        "    return [[float(len(text)), 1.0] for text in texts]\n"
        "def wrong(texts):\n"
        "    return [[1.0, float('nan')] for text in texts]\n"
        "def ragged(texts):\n"
        "    return [[1.0] * (2 + row % 2) for row, text in enumerate(texts)]\n"
        "def complexes(texts):\n"
        "    return [[1j, 2] for text in texts]\n"
        "def strings(texts):\n"
        "    return [['1', '2'] for text in texts]\n"
        "def single(texts):\n"
        "    return [1.0]\n"
    )

    def make(name: str, **options: Any) -> Callable[[Any], Any]:
        return embedding_of(f"models.py:{name}", PARTS, at="data", folder=str(tmp_path), **options).function.load()

    means = make("Means", dtype="float32")([{"jpg": picture(1)}, {"txt": b"no picture"}, {"jpg": picture(2)}])
    assert means[1] is None
    assert means[0].dtype == np.float32
    assert means[0].shape == (3,)
    [lengths] = make("lengths", part="txt")([{"txt": "drei €".encode()}])
    assert lengths[1] / lengths[0] == pytest.approx(1 / 6, abs=1e-3)
    with pytest.raises(ValueError, match="not finite"):
        make("wrong", part="txt")([{"txt": b"a"}])
    for name, fault in (
        ("complexes", "complex128 of"),
        ("strings", "<U1 of"),
        ("single", "2 vectors, found 1"),
    ):
        with pytest.raises(ValueError, match=f"expected .*{fault}"):
            make(name, part="txt")([{"txt": b"a"}, {"txt": b"b"}])
    # A sample alone would get a vector that no other call gives.
    first, fault, last = make("ragged", part="txt")([{"txt": b"a"}, {"txt": b"b"}, {"txt": b"c"}])
    assert (first.shape, last.shape) == ((2,), (2,))
    assert "as for other samples" in str(fault)


def test_a_worker_makes_one_instance_of_the_users_class_until_its_file_changes(tmp_path: Path) -> None:
    samples, made = [{"txt": b"a"}], tmp_path / "made"
    for value in (1, 2):
        (tmp_path / "counted_model.py").write_text(
            "class Counted:\n"
            "    def __init__(self):\n"
            f"        with open({str(made)!r}, 'a') as file: file.write('{value}')\n"
            f"    def __call__(self, texts): return [[{value}.0, 1.0]] * len(texts)\n" + "#" * value
        )
        function = embedding_of("counted_model:Counted", PARTS, at="data", part="txt", folder=str(tmp_path)).function
        for _ in range(3):  # a cluster sends a copy with each task
            [vector] = pickle.loads(pickle.dumps(function.sent())).load()(samples)
            assert vector[0] / vector[1] == pytest.approx(value, rel=1e-2)
    assert made.read_text() == "12"


def test_hashes_take_single_samples_and_skip_those_without_the_part() -> None:
    pictures = embedding_of("phash", PARTS, at="data")
    texts = embedding_of("minhash", PARTS, at="data")
    assert (pictures.part, pictures.metric, pictures.batch_size, pictures.column) == ("jpg", "hamming", None, "phash")
    assert (texts.part, texts.metric, texts.column) == ("txt", "jaccard", "minhash")
    assert pictures.function.load()({"jpg": picture(0)}).shape == (90,)
    assert texts.function.load()({"txt": "some words of a text"}).shape == (128,)
    for data, fault in ((b"no picture", "is not an image, but a text"), (picture(0)[:300], "does not decode as image")):
        with pytest.raises(SampleError, match=f"part 'jpg' {fault}"):
            pictures.function.load()({"jpg": data})
        with pytest.raises(SampleError, match=f"part 'jpg' {fault}"):
            embedding_of("math:prod", PARTS, at="data").function.load()([{"jpg": data}])
    with pytest.raises(SkipSample, match="has no jpg"):
        pictures.function.load()({"txt": b""})


def test_a_text_in_a_json_part_is_embedded(tmp_path: Path) -> None:
    (tmp_path / "sizes.py").write_text("def sizes(texts): return [[float(len(text)), 1.0] for text in texts]\n")
    samples: list[dict[str, Any]] = [
        {"json": b'{"meta": {"captions": ["", "drei \\u20ac"]}}'},
        {"json": b'{"meta": {"captions": [""]}}'},
        {"json": b'{"meta": null}'},
        {"txt": b"no json"},
        {"json": {"meta": {"captions": ["", "drei €"]}}},  # of a Parquet file
    ]
    part = "json[meta][captions][1]"
    embedding = embedding_of("sizes.py:sizes", PARTS, at="data", part=part, folder=str(tmp_path))
    assert (embedding.part, embedding.reads) == (part, "json")
    vectors = embedding.function.load()(samples)
    assert [vector is not None for vector in vectors] == [True, False, False, False, True]
    assert (vectors[0] == vectors[4]).all()
    assert vectors[0][1] / vectors[0][0] == pytest.approx(1 / 6, abs=1e-3)
    # Hashes of the words alone.
    hashed = embedding_of("minhash", (*PARTS, "json.gz"), at="data", part="json.gz[caption]").function.load()
    plain = embedding_of("minhash", PARTS, at="data", part="txt").function.load()
    assert (hashed({"json.gz": gzip.compress(b'{"caption": "a red cat"}')}) == plain({"txt": b"a red cat"})).all()
    with pytest.raises(SkipSample, match=r"has no json.gz\[caption\]"):
        hashed({"json.gz": gzip.compress(b'{"caption": null}')})


def test_a_part_that_the_model_cannot_take_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no part that is a picture"):
        embedding_of("phash", ("txt", "json"), at="data")
    with pytest.raises(ConfigError, match="there is no part 'png'"):
        embedding_of("phash", PARTS, at="data", part="png")
    with pytest.raises(ConfigError, match=r"there is no part 'txt.gz'"):
        embedding_of("minhash", PARTS, at="data", part="txt.gz")
    for part in ("yaml[caption]", "json[caption].chars", "json[caption"):
        with pytest.raises(ConfigError, match=re.escape(part)):
            embedding_of("minhash", PARTS, at="data", part=part)
    for model, part in (("phash", "txt"), ("timm:vit_tiny", "json[a]"), ("minhash", "jpg")):
        with pytest.raises(ConfigError, match=rf"{model} takes no \w+, such as {re.escape(part)}"):
            embedding_of(model, PARTS, at="data", part=part)
    assert embedding_of("phash", (*PARTS, "photo"), at="data", part="photo").part == "photo"
    with pytest.raises(ConfigError, match="there is no model 'clip'"):
        embedding_of("clip", PARTS, at="data")


def test_the_description_of_a_job_changes_with_the_users_file(tmp_path: Path) -> None:
    file = tmp_path / "model_that_changes.py"
    versions = set()
    for text in ("def embed(texts): return [[1.0]]", "def embed(texts): return [[2.0]]"):
        file.write_text(text)
        function = embedding_of("model_that_changes.py:embed", PARTS, at="data", folder=str(tmp_path)).function
        versions.add((str(function), function.version))
        for name in [name for name in sys.modules if name.startswith("_energon_map_")]:
            del sys.modules[name]
    assert len(versions) == 2
