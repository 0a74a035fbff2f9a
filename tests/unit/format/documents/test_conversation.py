from __future__ import annotations

import re
from typing import Any

import pytest

from loader.format.documents.conversation import Turn, conversation_turns, is_conversation

SHAREGPT = [{"from": "human", "value": "<image>\nWho?"}, {"from": "gpt", "value": "A cat."}]


def contents(value: object, images: int | None = None) -> list[tuple[str, list[str | int]]]:
    return [(turn.role, turn.content) for turn in conversation_turns(value, images=images)]


@pytest.mark.parametrize(
    ("value", "images", "expected"),
    [
        (SHAREGPT, 1, [("user", [0, "\nWho?"]), ("assistant", ["A cat."])]),
        ({"id": 3, "conversations": SHAREGPT}, 1, [("user", [0, "\nWho?"]), ("assistant", ["A cat."])]),
        (
            {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]},
            0,
            [("system", ["Be brief."]), ("user", ["Hi"])],
        ),
        (
            [
                {"role": "user", "content": [{"type": "text", "text": "<image>?"}, {"type": "image"}]},
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}, "so"]},
            ],
            2,
            [("user", ["<image>?", 0]), ("user", [1, "so"])],
        ),
        (
            [{"role": "user", "content": [{"type": "image", "index": 1}, {"type": "image", "index": 0}]}],
            2,
            [("user", [1, 0])],
        ),
        ([{"role": "system", "content": "x"}, {"role": "user", "content": "Who?"}], 2, None),
        ([{"from": "human", "value": "<image><image>"}], 2, [("user", [0, 1])]),
        (
            [{"from": "user", "value": "1: <img>a.jpg</img>, <audio>b.wav</audio>, <video>a cat</video>"}],
            1,
            [("user", ["1: ", 0, ", <audio>, <video>a cat</video>"])],
        ),
        ([], 0, []),
    ],
)
def test_layouts_of_conversations(value: object, images: int, expected: Any) -> None:
    if expected is None:  # no place: the images come first
        expected = [("system", ["x"]), ("user", [0, 1, "Who?"])]
    assert contents(value, images) == expected
    assert conversation_turns(conversation_turns(value)) == conversation_turns(value)


def test_other_values_of_a_message_are_kept() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": 1}], "name": "cook"}
    assert conversation_turns([message]) == [Turn("assistant", [], {"tool_calls": [{"id": 1}], "name": "cook"})]


def test_the_text_of_a_turn_has_placeholders() -> None:
    assert conversation_turns(SHAREGPT)[0].text == "<image>\nWho?"


@pytest.mark.parametrize(
    ("value", "images", "message"),
    [
        (3, None, "expected a list of messages, found int"),
        ({"a": 1}, None, "expected a conversation under conversations or messages or conversation, found a"),
        (["Hi"], None, "message 0: expected an object, found str"),
        ([*SHAREGPT, {"from": "human"}], None, "message 2: expected role and content, or from and value, found from"),
        ([{"role": "user", "content": 3}], None, "message 0: expected text or a list as content, found int"),
        (
            [{"role": "user", "content": [{"type": "depth"}]}],
            None,
            "items of type 'text', 'image', 'video' or 'audio', found type 'depth'",
        ),
        ({"messages": [], "system": 3}, None, "expected text as the system prompt, found int"),
        (SHAREGPT, 0, "found 1 place of images"),
        (SHAREGPT, 2, "found 1 place of images"),
        ([{"from": "gpt", "value": "A cat."}], 1, "neither a place for them nor a turn of the user"),
    ],
)
def test_faults_name_the_message(value: object, images: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        conversation_turns(value, images=images)


CLIP = [{"from": "human", "value": "<video>\nWhat?"}, {"from": "gpt", "value": "A cat."}]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (CLIP, ["<video>\nWhat?"]),
        ([{"from": "human", "value": "What?"}], ["<video>", "What?"]),  # without a place, it comes first
        ([{"from": "human", "value": "<image>\nWhat?"}], ["<video>", "\nWhat?"]),  # as LLaVA-Video has it
        ([{"role": "user", "content": [{"type": "video_url"}, {"type": "text", "text": "?"}]}], ["<video>", "?"]),
        ([{"role": "user", "content": [{"video": "a.mp4", "text": None}, {"text": "?"}]}], ["<video>", "?"]),
    ],
)
def test_videos_have_marks_in_the_text(messages: list[dict[str, object]], expected: list[str]) -> None:
    assert conversation_turns(messages, images=0, videos=1)[0].content == expected


def test_videos_and_sounds_are_compared_with_their_marks() -> None:
    with pytest.raises(ValueError, match=re.escape("found 1 place of videos (<video>), expected 2, one for each")):
        conversation_turns(CLIP, images=0, videos=2)
    with pytest.raises(ValueError, match=re.escape("found 2 places of sounds (<audio>), expected 1, one for each")):
        conversation_turns([{"from": "human", "value": "<audio><audio>"}], images=0, audios=1)
    assert conversation_turns(CLIP, images=0) == conversation_turns(CLIP, images=0, videos=1)  # text about a tag


def test_what_is_a_conversation() -> None:
    assert is_conversation(SHAREGPT)
    assert not is_conversation([])
    assert not is_conversation("<image>")
