"""Public names: packages and the alias list theirs in ``__all__``, and the face provides all that it lists."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

from tests.source_tree import ALIAS, ROOT, Source, parse, sources

ALIASES = {
    "Recipe": "MetadatasetV2",
    "SavableDataLoader": "DataLoader",
    "prepare_recipe": "prepare_metadataset",
}
"""Second names of objects."""


def faults_of_all(source: Source) -> Iterator[str]:
    listed = source.listed_names()
    expected = source.public_definitions() | (source.public_reexports() if source.is_package else set())
    if listed is None:
        if "__all__" in source.bound_names():  # imported: checked in the module that defines it
            expected = source.public_definitions()
        if expected and (source.is_package or source.module.startswith(ALIAS)):
            yield f"has public names but no __all__: {sorted(expected)}"
        return
    if source.grows_listed_names():
        yield "extends __all__; expected one list"
    if listed != sorted(listed, key=sort_key):
        yield f"is not sorted; expected {sorted(listed, key=sort_key)}"
    if len(set(listed)) < len(listed):
        yield "lists a name twice"
    if unlisted := expected - set(listed):
        yield f"lacks {sorted(unlisted)}"
    if unknown := set(listed) - source.bound_names():
        yield f"lists names that the module does not have: {sorted(unknown)}"


def sort_key(name: str) -> tuple[int, str]:
    """Sort as ruff's RUF022 does: CONSTANTS, then Classes, then functions."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2, name)


def test_lists_of_public_names_are_complete_and_sorted() -> None:
    assert not [f"{source.path.relative_to(ROOT)} {fault}" for source in sources() for fault in faults_of_all(source)]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (ALIAS, "class Public: ..."),
        (ALIAS, "from loader import __all__\nclass Public: ..."),
        ("loader.errors", "__all__ = ['b', 'a']\na = b = 1"),
        ("loader.errors", "__all__ = ['a', 'a']\na = 1"),
        ("loader.errors", "__all__ = []\ndef public(): ..."),
        ("loader.errors", "__all__ = ['gone']"),
        ("loader.errors", "__all__ = ['a']\na = 1\n__all__ += []"),
    ],
)
def test_a_fault_of_a_list_is_found(module: str, text: str) -> None:
    assert list(faults_of_all(parse(text, module=module)))


def test_a_sorted_list_passes() -> None:
    text = "__all__ = ['LIMIT', 'Error', 'run']\nLIMIT = Error = run = 1"
    assert not list(faults_of_all(parse(text, module="loader.errors")))


def test_the_face_provides_every_name_it_lists() -> None:
    import loader

    public: list[str] = vars(loader)["__all__"]  # made at run time: the stub has none
    for name in public:
        value = getattr(loader, name)
        assert getattr(value, "__name__", name) == ALIASES.get(name, name)
    assert set(public) <= set(dir(loader))


def test_the_face_invents_no_names() -> None:
    import loader

    with pytest.raises(AttributeError, match="has no attribute 'get_trian_dataset'; did you mean 'get_train_dataset'"):
        loader.get_trian_dataset  # type: ignore[attr-defined] # noqa: B018
    assert not hasattr(loader, "nothing_like_it")


@pytest.mark.parametrize("package", ["loader", "megatron.energon"])
def test_an_import_of_a_misspelt_name_guesses_the_right_one(package: str) -> None:
    with pytest.raises(
        ImportError, match=rf"cannot import name 'TaskEncodr' from '{package}'; did you mean 'TaskEncoder'"
    ):
        exec(f"from {package} import TaskEncodr")
    with pytest.raises(ImportError, match="cannot import name 'nothing_like_it'"):
        exec(f"from {package} import nothing_like_it")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"{package}.nothing_like_it")
