"""Tokens of pictures: the numbers of the published processors, for sizes with extreme aspects."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from loader.encoder_costs import ENCODERS, EncoderCosts
from loader.errors import ConfigError

SIZES = [
    (1, 1), (28, 28), (27, 29), (640, 480), (480, 640), (4000, 3000), (3000, 4000), (100, 1000), (8000, 41), (8200, 41),
    (41, 8200), (5, 900), (900, 5), (448, 448), (896, 448), (1344, 448), (7680, 4320), (336, 672), (337, 671), (1, 300),
    (56, 56), (55, 57), (1003, 1000), (200, 1),
]  # fmt: skip
NO = float("nan")
TOKENS = {  # of transformers 5.24.0
    "qwen2.5-vl": [4, 4, 6, 391, 391, 1230, 1230, 144, 286, 293, 293, 27, 27, 256, 512, 768, 1222, 288, 288, NO, 4, 4,
                   1225, 29],
    "qwen2.5-vl:max_pixels=501760": [4, 4, 6, 391, 391, 609, 609, 144, 286, 293, 293, 27, 27, 256, 512, 602, 594, 288,
                                     288, NO, 4, 4, 625, 29],
    "internvl": [256, 256, 256, 3328, 3328, 3328, 3328, 2816, 3328, 3328, 3328, 3328, 3328, 256, 768, 1024, 2304, 768,
                 768, 3328, 256, 256, 2560, 3328],
    "internvl:max_patches=6": [256, 256, 256, 1792, 1792, 1792, 1792, 1792, 1792, 1792, 1792, 1792, 1792, 256, 768,
                               1024, 768, 768, 768, 1792, 256, 256, 1280, 1792],
    "llava-next": [1176, 1176, 1128, 2340, 2352, 2340, 2352, 1224, 576, 576, 648, 648, 576, 2928, 1752, 2328, 1948,
                   1776, 1776, 600, 1176, 1176, 2928, 576],
}  # fmt: skip


@pytest.mark.parametrize("name", TOKENS)
def test_tokens_are_those_of_the_published_processors(name: str) -> None:
    costs = EncoderCosts.parse(name)(*np.array(SIZES).T)
    np.testing.assert_array_equal(costs.tokens, TOKENS[name])
    assert (np.isnan(costs.patches) == np.isnan(costs.tokens)).all()


def processors() -> dict[str, Any]:
    """Return functions of a height and a width, of the installed processors; they need no weights."""
    from transformers.models.got_ocr2.image_processing_got_ocr2 import get_optimal_tiled_canvas
    from transformers.models.llava_next.processing_llava_next import LlavaNextProcessor
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

    pinpoints = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
    llava = types.SimpleNamespace(
        patch_size=14,
        num_additional_image_tokens=1,
        image_processor=types.SimpleNamespace(image_grid_pinpoints=pinpoints),
    )
    llava._get_unpadded_features = types.MethodType(LlavaNextProcessor._get_unpadded_features, llava)

    def qwen(height: int, width: int) -> float:
        try:
            rows, columns = smart_resize(height, width, factor=28, min_pixels=3136, max_pixels=1_003_520)
        except ValueError:
            return NO
        return float(rows * columns / 28**2)

    def internvl(height: int, width: int) -> float:
        columns, rows = get_optimal_tiled_canvas((height, width), (448, 448), 1, 12)
        return float(256 * (columns * rows + (columns * rows > 1)))

    def llava_next(height: int, width: int) -> float:
        return float(LlavaNextProcessor._get_number_of_features(llava, height, width, 336, 336) - 1)

    return {"qwen2.5-vl": qwen, "internvl": internvl, "llava-next": llava_next}


@pytest.mark.parametrize("name", ENCODERS)
def test_a_thousand_sizes_cost_what_the_installed_processor_says(name: str) -> None:
    pytest.importorskip("transformers")
    try:
        of_processor = processors()[name]
    except ImportError as error:  # torchvision, which no build for this machine may have
        pytest.skip(str(error))
    width, height = np.exp(np.random.default_rng(1).uniform(0, np.log(8000), (2, 1000))).astype(int)
    expected = [of_processor(int(h), int(w)) for w, h in zip(width, height, strict=True)]
    np.testing.assert_array_equal(ENCODERS[name](width, height).tokens, expected)


def test_unknown_models_and_settings_are_named() -> None:
    for text, message in (
        ("qwen", "there are no costs of the model 'qwen'"),
        ("internvl:tiles=3", "internvl has no setting 'tiles'"),
        ("qwen2.5-vl:max_pixels=many", "expected max_pixels of qwen2.5-vl to be an integer above 0, found 'many'"),
        ("qwen2.5-vl:max_pixels=0", "expected max_pixels of qwen2.5-vl to be an integer above 0, found '0'"),
    ):
        with pytest.raises(ConfigError, match=message):
            EncoderCosts.parse(text)
    assert str(EncoderCosts.parse("qwen2.5-vl:max_pixels=501760")) == "qwen2.5-vl:max_pixels=501760"
