"""The shape of the source: who may import whom, what is public, and that every command is documented."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from tests.source_tree import ALIAS, BELOW_TORCH, LAYERS, ROOT, Source, is_own, layer_of, parse, sources

FORBIDDEN_BELOW_TORCH = {"torch", "torchvision", "webdataset", "pandas"}
# What makes a command slow to start.
HEAVY = ("torch", "webdataset", "fsspec", "upath", "pandas", "scipy")

by_module = pytest.mark.parametrize("source", sources(), ids=lambda source: source.module)


def upward_imports(source: Source) -> Iterator[str]:
    own = layer_of(source.module)
    for imported in source.imports():
        target = layer_of(imported.target)
        if own is None or not is_own(imported.target) or imported.target == "loader.__version__":
            continue  # the version is there before anything is looked up
        if target is None and source.module.startswith("loader."):
            yield f"line {imported.line}: {imported.target} is the package's face, which is above every layer"
        elif target is not None and LAYERS.index(target) > LAYERS.index(own):
            yield f"line {imported.line}: {own} imports {imported.target} from above"


def absolute_imports_of_own_package(source: Source) -> Iterator[str]:
    for imported in source.imports():
        if source.module.partition(".")[0] == "loader" and is_own(imported.target) and not imported.relative:
            yield f"line {imported.line}: {imported.target}; expected a relative import"


def forbidden_imports(source: Source) -> Iterator[str]:
    for imported in source.imports():
        if layer_of(source.module) in BELOW_TORCH and imported.target.partition(".")[0] in FORBIDDEN_BELOW_TORCH:
            yield f"line {imported.line}: {imported.target}"


def imports_below_the_faces(source: Source) -> Iterator[str]:
    """Yield imports of the commands from modules; they import names from packages: ``loader``, ``loader.samples`` …"""
    if layer_of(source.module) != "energon_cli":
        return
    packages = {other.module for other in sources() if other.is_package}
    modules = {other.module for other in sources()} - packages - {"loader.errors"}
    for imported in source.imports():
        if not imported.target.startswith("loader.") or imported.target in packages:
            continue
        if {imported.target, imported.target.rpartition(".")[0]} & modules:
            yield f"line {imported.line}: {imported.target}; expected a name of a package, such as loader.inspect"


def locking_properties(source: Source) -> Iterator[str]:
    if source.module == "loader.cached_property":
        return  # what type checkers are told there
    for imported in source.imports():
        if imported.target == "functools.cached_property":
            yield f"line {imported.line}: {imported.target}; expected that of loader/cached_property.py"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "functools.cached_property":
            yield f"line {node.lineno}: functools.cached_property; expected that of loader/cached_property.py"


def asserts_and_prints(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assert):
            yield f"line {node.lineno}: assert"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            yield f"line {node.lineno}: print"


def faults_of_all(source: Source) -> Iterator[str]:
    listed = source.listed_names()
    expected = source.public_definitions() | (source.public_reexports() if source.is_package else set())
    if listed is None:
        if "__all__" in source.bound_names():  # imported: checked where it is written
            expected = source.public_definitions()
        if expected:
            yield f"has public names but no __all__: {sorted(expected)}"
        return
    if source.grows_listed_names():
        yield "is added to; expected one list"
    if listed != sorted(listed, key=sort_key):
        yield f"is not sorted; expected {sorted(listed, key=sort_key)}"
    if len(set(listed)) < len(listed):
        yield "names something twice"
    if unlisted := expected - set(listed):
        yield f"lacks {sorted(unlisted)}"
    if unknown := set(listed) - source.bound_names():
        yield f"names what the module does not have: {sorted(unknown)}"


def sort_key(name: str) -> tuple[int, str]:
    """Sort as ruff's RUF022 does: CONSTANTS, then Classes, then functions."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2, name)


# ------------------------------------------------------------------------------------------------- the layers


@by_module
def test_every_module_lies_in_a_layer(source: Source) -> None:
    assert source.module == "loader" or layer_of(source.module), (
        "add its layer to LAYERS in tests/source_tree.py and to docs/explanation/architecture.md"
    )


@by_module
def test_imports_go_down_only(source: Source) -> None:
    assert not list(upward_imports(source))


@by_module
def test_imports_inside_loader_are_relative(source: Source) -> None:
    assert not list(absolute_imports_of_own_package(source)), "a user's own loader.py would shadow us"


@by_module
def test_nothing_below_the_torch_line_imports_torch(source: Source) -> None:
    assert not list(forbidden_imports(source))


def test_the_commands_import_from_the_faces_of_the_library_only() -> None:
    offenders = [f"{source.module}, {fault}" for source in sources() for fault in imports_below_the_faces(source)]
    assert not offenders, "\n".join(offenders)


@by_module
def test_nothing_holds_a_lock_for_a_lazy_attribute(source: Source) -> None:
    assert not list(locking_properties(source)), "a forked worker would wait for it for ever"


def test_what_only_reads_metadata_loads_nothing_heavy() -> None:
    light = [source.module for source in sources() if layer_of(source.module) in (*BELOW_TORCH, "energon_cli")]
    modules = [module for module in ["loader", *light] if not module.endswith("__main__")]
    code = "import importlib, sys; [importlib.import_module(m) for m in sys.argv[2].split()]; "
    code += "print(*[heavy for heavy in sys.argv[1].split() if heavy in sys.modules])"
    command = [sys.executable, "-c", code, " ".join(HEAVY), " ".join(modules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stderr, done.stdout.split()) == ("", [])


@pytest.mark.parametrize(
    ("module", "line", "check"),
    [
        ("loader.storage.local", "from ..format import prepare", upward_imports),
        ("loader.storage.local", "from .. import format", upward_imports),
        ("loader.storage.local", "def f():\n    from ..format.tar_scan import scan", upward_imports),
        ("loader.format.prepare.run", "import energon_cli.main", upward_imports),
        ("loader.format.worker_pool", "from .. import EnergonError", upward_imports),
        ("loader.format.prepare.run", "from loader.errors import EnergonError", absolute_imports_of_own_package),
        ("loader.format.prepare.run", "import loader.errors", absolute_imports_of_own_package),
        ("loader.format.prepare.run", "def f():\n    import torch.nn", forbidden_imports),
        ("loader.order.blend", "if TYPE_CHECKING:\n    from torch import Tensor", forbidden_imports),
        ("loader.errors", "importlib.import_module('webdataset')", forbidden_imports),
        ("loader.training.datasets.chain", "from megatron.energon import Sample", upward_imports),
        ("energon_cli.info.command", "def f():\n    import megatron.energon.cli.main", upward_imports),
        ("loader.training.datasets.chain", "from megatron.energon import Sample", absolute_imports_of_own_package),
        ("energon_cli.info.command", "from loader.format.tar.scan import TarScan", imports_below_the_faces),
        ("energon_cli.info.command", "def f():\n    import loader.format.tar.scan", imports_below_the_faces),
        ("loader.order.blend", "from functools import cached_property", locking_properties),
        ("loader.order.blend", "import functools\nclass A:\n    a = functools.cached_property(f)", locking_properties),
        ("loader.format.prepare.run", "def f(x):\n    assert x", asserts_and_prints),
        ("energon_cli.info.command", "print('done')", asserts_and_prints),
        ("loader.errors", "class Public: ...", faults_of_all),
        (ALIAS, "from loader import __all__\nclass Public: ...", faults_of_all),
        ("loader.errors", "__all__ = ['b', 'a']\na = b = 1", faults_of_all),
        ("loader.errors", "__all__ = ['a', 'a']\na = 1", faults_of_all),
        ("loader.errors", "__all__ = []\ndef public(): ...", faults_of_all),
        ("loader.errors", "__all__ = ['gone']", faults_of_all),
        ("loader.errors", "__all__ = ['a']\na = 1\n__all__ += []", faults_of_all),
    ],
)
def test_the_checks_of_this_file_see_a_fault(module: str, line: str, check: object) -> None:
    assert list(check(parse(line, module=module)))


@pytest.mark.parametrize(
    ("module", "line", "check"),
    [
        ("loader.format.prepare.run", "from ..errors import EnergonError\nfrom .commit import run", upward_imports),
        ("loader.format.prepare.run", "from ..version import __version__", upward_imports),
        ("loader.format.prepare.run", "from .. import __version__", upward_imports),
        ("loader.samples.types", "import torch", forbidden_imports),
        ("energon_cli.info.command", "from loader.format import run_prepare", absolute_imports_of_own_package),
        (ALIAS, "from loader import __all__\nimport loader.errors", absolute_imports_of_own_package),
        ("energon_cli.info.command", "from loader.inspect import path_facts", imports_below_the_faces),
        ("energon_cli.info.command", "from loader.errors import ConfigError", imports_below_the_faces),
        ("energon_cli.info.command", "from loader import __version__", imports_below_the_faces),
        ("energon_cli.info.command", "from loader.format import jsonl", imports_below_the_faces),
        ("loader.inspect.facts", "from loader.format.tar.scan import TarScan", imports_below_the_faces),
        (
            f"{ALIAS}.tools.info",
            "from energon_cli.info.command import info\nfrom loader.errors import E",
            upward_imports,
        ),
        ("loader.integrations.loop", "import megatron.core", upward_imports),
        ("loader.order.blend", "from ..cached_property import cached_property", locking_properties),
        ("loader.errors", "__all__ = ['LIMIT', 'Error', 'run']\nLIMIT = Error = run = 1", faults_of_all),
    ],
)
def test_the_checks_of_this_file_let_the_rest_pass(module: str, line: str, check: object) -> None:
    assert not list(check(parse(line, module=module)))


# ------------------------------------------------------------------------------------------- what is public


@by_module
def test_the_list_of_public_names_is_sorted_and_true(source: Source) -> None:
    assert not list(faults_of_all(source)), source.path


@by_module
def test_nothing_asserts_or_prints(source: Source) -> None:
    assert not list(asserts_and_prints(source))


def test_the_face_hands_out_every_name_it_lists() -> None:
    import loader

    for name in loader.__all__:
        value = getattr(loader, name)
        assert getattr(value, "__name__", name) == name
    assert set(loader.__all__) <= set(dir(loader))


def test_the_face_does_not_invent_names() -> None:
    import loader

    with pytest.raises(AttributeError, match="attribute get_trian_dataset"):
        loader.get_trian_dataset  # noqa: B018


# --------------------------------------------------------------------------------------------- the commands


def commands() -> list[tuple[str, click.Command]]:
    """Give all commands, those of a group behind it: ``checkpoint``, ``checkpoint info``."""
    from energon_cli.main import cli

    return list(commands_of(cli, ""))


def commands_of(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name="energon")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield prefix + name, command
        if isinstance(command, click.Group):
            yield from commands_of(command, f"{prefix}{name} ")


def test_the_commands_are_those_of_the_design() -> None:
    assert {"prepare", "info", "lint", "preview"} <= {name for name, _ in commands()}


def test_every_command_has_help_with_an_example() -> None:
    for name, command in commands():
        context = click.Context(command, info_name=name, parent=click.Context(click.Group(), info_name="energon"))
        text = command.get_help(context)
        assert re.search(rf"^ +(\$ )?energon {name} ", text, flags=re.MULTILINE), f"no example in:\n{text}"


def test_every_option_of_every_command_says_what_it_does() -> None:
    silent = [
        f"energon {name} {parameter.opts[-1]}"
        for name, command in commands()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden and not parameter.help
    ]
    assert not silent


def test_every_command_has_a_documentation_page_in_the_navigation() -> None:
    from energon_cli.main import COMMANDS

    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in (name for name, _ in commands() if " " not in name):  # a group's page documents its commands
        page = (ROOT / "docs" / "commands" / f"{name}.md").read_text(encoding="utf-8")
        late = COMMANDS[name]
        assert f":module: {late.module}\n:command: {late.attribute}\n".replace("\n", "\n    ").rstrip() in page
        assert f"commands/{name}.md" in navigation
