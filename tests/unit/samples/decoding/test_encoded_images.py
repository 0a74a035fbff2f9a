"""Images that stay encoded until ``to_device`` give the pixels of the decoder on the CPU."""

from __future__ import annotations

import io
import logging
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from loader import CaptioningSample, ConfigError, SampleError, TaskEncoder, WorkerConfig, get_loader, get_train_dataset
from loader.samples.batching import device_copy
from loader.samples.batching.collate import pad_stack
from loader.samples.batching.device_copy import (
    DeviceCopies,
    NvImageCodecDecoder,
    TorchvisionDecoder,
    decode_images,
    jpeg_decoder,
)
from loader.samples.decoding.decoder import SampleDecoder
from loader.samples.decoding.image_decode import EncodedImage
from tests.e2e.dataset_tree import prepare, write_shard

MEAN_DIFFERENCE = 2.0
"""Levels of 255 by which the mean of the absolute differences of an image's pixels may differ from the CPU's."""

CPU = torch.device("cpu")


def picture(number: int, kind: str = "jpeg", mode: str = "RGB", **options: Any) -> bytes:
    """Return a smooth picture with noise."""
    x, y = np.meshgrid(np.arange(40 + 3 * number), np.arange(32))
    waves = [127 + 60 * np.sin(x / (5 + channel)) + 60 * np.cos(y / (4 + number)) for channel in range(3)]
    noise = np.random.default_rng(number).integers(-6, 7, (*x.shape, 3))
    file = io.BytesIO()
    Image.fromarray((np.stack(waves, 2) + noise).clip(0, 255).astype(np.uint8)).convert(mode).save(
        file, kind, **options
    )
    return file.getvalue()


PICTURES = {
    "jpg": picture(0, quality=90),
    "progressive": picture(1, progressive=True),
    "4:4:4": picture(2, subsampling=0),
    "grey": picture(3, mode="L"),
    "cmyk": picture(4, mode="CMYK"),
    "png": picture(5, "png"),
    "with alpha": picture(6, "png", mode="RGBA"),
}
FORMS = ["torchrgb8", "torchrgb", "torch"]


def decoder(device: str, image_decode: str = "torchrgb8") -> SampleDecoder:
    return SampleDecoder(image_decode=image_decode, image_decode_device=device)


# ------------------------------------------------------------------------------------------------- the decoder


@pytest.mark.parametrize("image_decode", FORMS)
@pytest.mark.parametrize("name", PICTURES)
def test_an_encoded_image_decodes_to_the_pixels_of_the_default_bit_for_bit(name: str, image_decode: str) -> None:
    data = PICTURES[name]
    expected = SampleDecoder(image_decode=image_decode).decode_part("jpg", data)
    on_cpu = decoder("cpu", image_decode).decode_part("jpg", data)
    kept = pickle.loads(pickle.dumps(decoder("cuda", image_decode).decode_part("jpg", data)))
    assert isinstance(kept, EncodedImage)
    assert (kept.data == data) is (name not in ("cmyk", "png", "with alpha"))
    for found in (on_cpu, kept.decode()):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
    assert kept.shape == expected.shape


def test_images_that_are_guessed_or_compressed_stay_encoded_too() -> None:
    guessing = SampleDecoder(image_decode="torchrgb8", image_decode_device="cuda", guess_content=True)
    assert isinstance(guessing.decode_part("unknown", PICTURES["jpg"]), EncodedImage)
    assert guessing.decode_part("txt", b"text") == "text"


def test_the_default_is_printed_as_in_earlier_versions_whose_states_have_it() -> None:
    assert repr(decoder("cpu")) == (
        "SampleDecoder(av_decode='AVDecoder', guess_content=False, image_decode='torchrgb8', video_decode_audio=False)"
    )
    assert "image_decode_device" not in decoder("cpu").config()
    assert "image_decode_device='cuda'" in repr(decoder("cuda"))
    assert decoder("cuda").config()["image_decode_device"] == "cuda"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image_decode_device": "gpu"}, "'cpu' or 'cuda', found 'gpu'"),
        ({"image_decode_device": "cuda:1"}, "'cpu' or 'cuda', found 'cuda:1'"),
        ({"image_decode_device": "cuda", "image_decode": "rgb8"}, "decodes to RGB tensors, not to image_decode='rgb8'"),
        ({"image_decode_device": "cuda", "image_decode": "torchl8"}, "decodes to RGB tensors"),
    ],
)
def test_other_devices_and_forms_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        SampleDecoder(**arguments)


# ------------------------------------------------------------------------------------------------- batches


class Encoder(TaskEncoder[Any, Any, Any, Any]):
    def __init__(self, device: str, image_decode: str) -> None:
        self.decoder = decoder(device, image_decode)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    kinds = list(PICTURES.values())
    samples = {f"{number:03}": {"jpg": kinds[number % len(kinds)], "txt": b"text"} for number in range(21)}
    write_shard(folder / "shard.tar", samples)
    text = "sample_type: {__module__: megatron.energon, __class__: CaptioningSample}\n"
    prepare(folder, files={"dataset.yaml": text + "field_map: {image: jpg, caption: txt}\n"})
    return folder


def loader_of(dataset: Path, device: str, image_decode: str, workers: int = 0) -> Any:
    return get_loader(
        get_train_dataset(
            dataset,
            batch_size=4,
            shuffle_buffer_size=None,
            max_samples_per_sequence=None,
            worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers),
            task_encoder=Encoder(device, image_decode),
        )
    )


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("image_decode", ["torchrgb8", "torchrgb"])
def test_batches_of_encoded_images_become_those_of_the_default(dataset: Path, image_decode: str, workers: int) -> None:
    plain = loader_of(dataset, "cpu", image_decode)
    with loader_of(dataset, "cuda", image_decode, workers).to_device("cpu") as moved:
        for _, expected, batch in zip(range(12), plain, moved, strict=False):
            assert batch.__key__ == expected.__key__
            assert batch.image.dtype == expected.image.dtype
            assert torch.equal(batch.image, expected.image)


def test_without_to_device_the_images_of_a_batch_are_a_list(dataset: Path) -> None:
    batch = next(iter(loader_of(dataset, "cuda", "torchrgb8")))
    assert [type(image) for image in batch.image] == [EncodedImage] * 4


def test_a_tuple_of_images_stays_one_of_tensors_of_their_own_sizes() -> None:
    images = tuple(decoder("cuda").decode_part("jpg", PICTURES[name]) for name in ("jpg", "png"))
    moved, _ = decode_images({"x": images, "same": images[0], "n": [1, "a"]}, CPU, None)
    assert [tensor.shape for tensor in moved["x"]] == [image.shape for image in images]
    assert moved["same"] is moved["x"][0]  # decoded once


def test_images_of_dicts_are_decoded_whatever_their_names() -> None:
    image = decoder("cuda").decode_part("jpg", PICTURES["jpg"])
    moved, _ = decode_images({"image": [image], "__thumbnail": [image]}, CPU, None)
    assert torch.equal(moved["image"], moved["__thumbnail"])


def test_images_for_other_devices_are_decoded_on_the_cpu() -> None:
    image = decoder("cuda").decode_part("jpg", PICTURES["jpg"])
    copies = DeviceCopies(torch.device("meta"))
    moved = copies.finish(copies.start({"image": [image, image]}))
    assert moved["image"].device.type == "meta"
    assert moved["image"].shape == (2, *image.shape)


class Refusing:
    """A decoder that decodes no image of an even number, as a GPU refuses some."""

    def __call__(self, images: list[bytes]) -> Any:
        return [
            None if number % 2 == 0 else SampleDecoder(image_decode="torchrgb8").decode_part("jpg", image)
            for number, image in enumerate(images)
        ], None


class Views:
    """A decoder whose images are views of (H, W, 3), as those of nvImageCodec."""

    def __call__(self, images: list[bytes]) -> Any:
        pixels = [SampleDecoder(image_decode="rgb8").decode_part("jpg", image) for image in images]
        return [torch.from_numpy(image).permute(2, 0, 1) for image in pixels], pixels


@pytest.mark.parametrize("image_decode", ["torchrgb8", "torchrgb"])
@pytest.mark.parametrize("names", [["jpg"] * 3, ["jpg", "progressive", "jpg"], ["jpg", "jpg", "png"]])
def test_decoded_views_become_contiguous_tensors(names: list[str], image_decode: str) -> None:
    images = [decoder("cuda", image_decode).decode_part("jpg", PICTURES[name]) for name in names]
    expected = [SampleDecoder(image_decode=image_decode).decode_part("jpg", PICTURES[name]) for name in names]
    moved, kept = decode_images({"list": images, "tuple": tuple(images), "one": images[0]}, CPU, Views)
    for found, wanted in zip([moved["list"], *moved["tuple"]], [pad_stack(expected), *expected], strict=True):
        assert found.is_contiguous()
        assert torch.equal(found, wanted)
    assert moved["one"] is moved["tuple"][0]
    assert not any(np.shares_memory(moved["one"].numpy(), pixels) for pixels in kept)


def test_images_that_the_gpu_cannot_decode_are_decoded_on_the_cpu_and_named(caplog: pytest.LogCaptureFixture) -> None:
    names = ["jpg", "progressive", "grey", "png"]
    images = [decoder("cuda", "torchrgb").decode_part("jpg", PICTURES[name]) for name in names]
    keys: Any = [f"s.tar/{name}" for name in names]
    pictures: Any = images
    sample = CaptioningSample(__key__=keys, image=pictures, caption="")  # as the default batch makes it
    with caplog.at_level(logging.WARNING):
        moved, _ = decode_images(sample, CPU, Refusing)
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        f"the GPU cannot decode the image of sample s.tar/{name}" for name in ("jpg", "grey")
    ]
    for tensor, name in zip(moved.image, names, strict=True):
        expected = SampleDecoder(image_decode="torchrgb").decode_part("jpg", PICTURES[name])
        assert torch.allclose(tensor[:, : expected.shape[1], : expected.shape[2]], expected, atol=1e-6)


def test_a_damaged_image_is_an_error_that_names_its_sample() -> None:
    image = decoder("cuda").decode_part("jpg", PICTURES["jpg"][:-200])
    with pytest.raises(SampleError, match=r"the image of sample s\.tar/7 cannot be decoded: .*truncated") as caught:
        decode_images([{"__key__": "s.tar/7", "image": image}], CPU, None)
    assert caught.value.key == "s.tar/7"


# ------------------------------------------------------------------------------------------------- on a GPU


def test_a_missing_package_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_copy, "is_installed", lambda package: False)
    with pytest.raises(ConfigError, match="needs a package that decodes JPEGs on a GPU") as caught:
        jpeg_decoder(CPU)
    assert "pip install nvidia-nvimgcodec-cu13" in str(caught.value)


def devices() -> list[Any]:
    needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    return ["cpu", pytest.param("cuda", marks=needs_gpu)]


@pytest.mark.parametrize("device", devices())
@pytest.mark.parametrize(
    ("package", "kind"), [("nvidia.nvimgcodec", NvImageCodecDecoder), ("torchvision", TorchvisionDecoder)]
)
def test_decoders_of_batches_give_the_pixels_of_the_cpu_within_the_tolerance(
    package: str, kind: Any, device: str
) -> None:
    pytest.importorskip(package)
    names = ["jpg", "progressive", "4:4:4", "grey"]
    truncated = PICTURES["jpg"][:-200]
    tensors, _ = kind(torch.device(device))([*(PICTURES[name] for name in names), b"\xff\xd8\xff no image", truncated])
    assert tensors[4] is None
    for name, tensor in zip(names, tensors, strict=False):
        expected = SampleDecoder(image_decode="torchrgb8").decode_part("jpg", PICTURES[name])
        assert tensor.device.type == device
        assert (tensor.dtype, tensor.shape) == (torch.uint8, expected.shape)
        difference = (tensor.cpu().float() - expected.float()).abs().mean().item()
        assert difference <= MEAN_DIFFERENCE, name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_decoded_on_a_gpu(dataset: Path, workers: int) -> None:
    if not any(map(device_copy.is_installed, ("nvidia.nvimgcodec", "torchvision"))):
        pytest.skip("needs nvImageCodec or torchvision")
    plain = loader_of(dataset, "cpu", "torchrgb8")
    with loader_of(dataset, "cuda", "torchrgb8", workers).to_device("cuda") as moved:
        for _, expected, batch in zip(range(12), plain, moved, strict=False):
            assert batch.image.is_cuda
            assert batch.image.is_contiguous()
            assert batch.image.shape == expected.image.shape
            assert (batch.image.cpu().float() - expected.image.float()).abs().mean().item() <= MEAN_DIFFERENCE
