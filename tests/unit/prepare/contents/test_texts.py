from __future__ import annotations

import pytest

from loader.prepare.contents.texts import Texts


def texts_of(*values: str) -> Texts:
    texts = Texts()
    texts.add(values)
    return texts


def test_few_short_texts_that_repeat_are_classes_and_a_name_makes_up_for_repetitions() -> None:
    assert texts_of(*["dog", "cat"] * 3).classes() == ("cat", "dog")
    assert texts_of(*["dog", "cat"] * 2).classes() == ()
    assert texts_of("dog", "cat").classes(are_labels=True) == ("cat", "dog")
    assert texts_of(*map(str, range(10))).classes(are_labels=True) == (), "no value is there twice"
    assert texts_of("cat", "cat", "cat").classes() == (), "one value is no choice"
    assert texts_of(*["a dog in the rain", "a cat"] * 9).classes(are_labels=True) == ()
    assert texts_of(*["x" * 41, "cat"] * 9).classes(are_labels=True) == ()


def test_more_than_1000_texts_are_no_classes_and_take_no_memory() -> None:
    texts = texts_of(*(f"n{number}" for number in range(1000)), "n0")
    assert len(texts.classes(are_labels=True)) == 0
    texts.add([f"n{number}" for number in range(1000)])
    assert len(texts.classes(are_labels=True)) == 1000
    texts.add(["another"])
    assert texts.values is None


def test_texts_of_several_shards_count_together() -> None:
    one, two = texts_of("cat", "dog", "cat"), texts_of("dog", "cat", "dog")
    one.merge(two)
    assert (one.count, one.has_words, one.classes()) == (6, True, ("cat", "dog"))
    numbers = texts_of("1 2")
    numbers.merge(texts_of("0.5, -3e4"))
    assert not numbers.has_words
    numbers.merge(one)
    assert numbers.has_words


@pytest.mark.parametrize("text", ["0 0.5 0.5 0.2 0.2", "(12, 3)", "[1.5,-2]\n", "1e-3", "٣ ٤"])
def test_texts_of_digits_are_numbers(text: str) -> None:
    assert not texts_of(text).has_words


@pytest.mark.parametrize("text", ["0 cat", "...", "- - -", "e e", "5 kg"])
def test_other_texts_are_words(text: str) -> None:
    assert texts_of(text).has_words
