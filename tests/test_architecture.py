"""The shape of the source: who may import whom, by the table of layers in docs/explanation/architecture.md."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.source_tree import (
    ALIAS,
    BELOW_TORCH,
    GUESTS,
    LAYERS,
    ROOT,
    Source,
    circles,
    imports_between_files,
    imports_between_siblings,
    is_own,
    layer_of,
    parse,
    rows_of_layers,
    sources,
)

FORBIDDEN_BELOW_TORCH = {"torch", "torchvision", "webdataset", "pandas"}
SLOW_TO_IMPORT = ("torch", "webdataset", "fsspec", "pandas", "scipy")
BUDGET = tomllib.loads((ROOT / "tests" / "budget.toml").read_text("utf-8"))
"""The largest sizes of the source."""
IMPORTED_AS = {"pillow": "PIL", "pyyaml": "yaml"}
"""Requirements whose package has another name than their distribution."""

Check = Callable[[Source], Iterator[str]]


def offenders(check: Check) -> list[str]:
    """Return every fault that a check finds in the whole source, with file and line."""
    return [f"{source.path.relative_to(ROOT)}: {fault}" for source in sources() for fault in check(source)]


def own_files() -> list[Source]:
    """Return the modules of ``loader`` and ``energon_cli``, without the alias."""
    return [source for source in sources() if layer_of(source.module) != ALIAS]


# -------------------------------------------------------------------------------------------------- the checks


def missing_layer(source: Source) -> Iterator[str]:
    if source.module != "loader" and layer_of(source.module) is None:
        yield "add its layer to the table in docs/explanation/architecture.md"


def upward_imports(source: Source) -> Iterator[str]:
    own = layer_of(source.module)
    for imported in source.imports():
        target = layer_of(imported.target)
        if own is None or not is_own(imported.target) or imported.target == "loader.__version__":
            continue  # the version is imported before any other name of the package
        if target is None and source.module.startswith("loader."):
            yield f"line {imported.line}: {imported.target} is the package's face, which is above every layer"
        elif target is not None and LAYERS.index(target) > LAYERS.index(own):
            yield f"line {imported.line}: {own} imports {imported.target} from above"


def imports_of_guests(source: Source) -> Iterator[str]:
    own = layer_of(source.module)
    if own is None or own in GUESTS or not own.startswith("loader."):
        return
    for imported in source.imports():
        if layer_of(imported.target) in GUESTS:
            yield f"line {imported.line}: the core imports {imported.target}, a guest"


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
    modules = {other.module for other in sources()} - packages - {"loader.errors", "loader.extensions"}
    for imported in source.imports():
        if not imported.target.startswith("loader.") or imported.target in packages:
            continue
        if {imported.target, imported.target.rpartition(".")[0]} & modules:
            yield f"line {imported.line}: {imported.target}; expected a name of a package, such as loader.inspect"


def locking_properties(source: Source) -> Iterator[str]:
    if source.module == "loader.cached_property":
        return  # its declaration for type checkers
    for imported in source.imports():
        if imported.target == "functools.cached_property":
            yield f"line {imported.line}: {imported.target}; expected that of loader/cached_property.py"
    for node in source.nodes:
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "cached_property"
            and ast.unparse(node) == "functools.cached_property"
        ):
            yield f"line {node.lineno}: functools.cached_property; expected that of loader/cached_property.py"


def asserts_and_prints(source: Source) -> Iterator[str]:
    if layer_of(source.module) == "loader.testing":
        return  # tests, which are shipped
    for node in source.nodes:
        if isinstance(node, ast.Assert):
            yield f"line {node.lineno}: assert"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"line {node.lineno}: print"


# -------------------------------------------------------------------------------------------------- the layers


def test_every_module_is_in_a_layer() -> None:
    assert not offenders(missing_layer)


def test_imports_between_layers_go_down() -> None:
    assert not offenders(upward_imports)


def test_the_core_imports_no_guest() -> None:
    assert not offenders(imports_of_guests)


def test_all_lists_of_layers_are_the_same() -> None:
    names = [modules[0].removeprefix("loader.") if modules else "— torch —" for modules, _ in rows_of_layers()[:-1]]
    line = " → ".join(f"`{name}`" if name.isidentifier() or name == ALIAS else f"**{name}**" for name in names)
    assert f"\n{line}\n" in (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    folders = re.findall(
        r"^\| `loader/(\w+)/` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert folders == [name for name in names if (ROOT / "loader" / name).is_dir()]


def test_imports_inside_loader_are_relative() -> None:
    assert not offenders(absolute_imports_of_own_package), "a user's own loader.py would shadow the package"


def test_nothing_below_the_torch_line_imports_torch() -> None:
    assert not offenders(forbidden_imports)


def test_lazy_attributes_take_no_lock() -> None:
    assert not offenders(locking_properties), "a forked worker would wait for the lock forever"


def test_the_source_neither_asserts_nor_prints() -> None:
    assert not offenders(asserts_and_prints)


def test_the_commands_import_from_the_faces_of_the_library_only() -> None:
    assert not offenders(imports_below_the_faces)


def test_reading_metadata_imports_nothing_slow() -> None:
    light = [source.module for source in sources() if layer_of(source.module) in (*BELOW_TORCH, "energon_cli")]
    modules = [module for module in ["loader", *light] if not module.endswith("__main__")]
    code = "import importlib, sys; [importlib.import_module(m) for m in sys.argv[2].split()]; "
    code += "print(*[slow for slow in sys.argv[1].split() if slow in sys.modules])"
    command = [sys.executable, "-c", code, " ".join(SLOW_TO_IMPORT), " ".join(modules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stderr, done.stdout.split()) == ("", [])


# --------------------------------------------------------------------------------------------------- the rooms


def test_no_folder_holds_more_files_than_a_reader_takes_in() -> None:
    files = Counter(str(source.path.parent.relative_to(ROOT)) for source in own_files())
    assert not {folder: count for folder, count in files.items() if count > BUDGET["files_in_a_folder"]}


ROOMS = {
    "importing": ("loader.convert",),
    "look": ("loader.inspect", "loader.similarity", "loader.mapping"),
    "compat": ("loader.compat", "loader.integrations", "loader.notebook", "megatron.energon"),
    "cli": ("energon_cli",),
}
"""Layers of each part of the house whose lines have a limit of their own; all others are the core."""

_ASKS_FOR_KIND = re.compile(
    r"\b(are_records|is_record_file|is_metadataset|is_tar_file|is_unprepared|UnpreparedDataset|is_jsonl|is_parquet)\b"
)


def size_of_the_house() -> dict[str, int]:
    """Return the figures that the budget limits; tests that are shipped do not count."""
    counted = [source for source in sources() if layer_of(source.module) != "loader.testing"]
    room_of = {layer: room for room, layers in ROOMS.items() for layer in layers}
    lines = Counter({"core": 0})
    for source in counted:
        lines[room_of.get(layer_of(source.module) or "", "core")] += code_lines(source)
    return {
        "code_lines": lines.total(),
        **{f"code_lines_of_{room}": lines[room] for room in ("core", *ROOMS)},
        "lines_that_ask_for_kind": sum(
            bool(_ASKS_FOR_KIND.search(line)) for source in counted for line in source.text.splitlines()
        ),
        "pools_of_open_files": sum(
            len(re.findall(r"[Dd]ict\[.*\bReadableFile\b", source.text)) for source in sources()
        ),
        "lines_that_name_meta_folder": sum(
            "meta_folder" in line for source in own_files() for line in source.text.splitlines()
        ),
    }


def code_lines(source: Source) -> int:
    """Return the number of lines that are neither blank, a comment nor of a docstring."""
    of_docstrings = lines_of_docstrings(source)
    lines = enumerate(map(str.strip, source.text.splitlines()), start=1)
    return sum(bool(line) and not line.startswith("#") and number not in of_docstrings for number, line in lines)


def lines_of_docstrings(source: Source) -> set[int]:
    documented = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    return {
        line
        for node in source.nodes
        if isinstance(node, documented) and ast.get_docstring(node)
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }


def test_the_house_stays_within_its_budget() -> None:
    sizes = size_of_the_house()
    assert not {name: size for name, size in sizes.items() if size > BUDGET[name]}


def classes_of(*rooms: str) -> dict[str, ast.ClassDef]:
    """Return the classes of some rooms by name."""
    nodes = [node for source in sources() if source.module.startswith(rooms) for node in source.nodes]
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


def test_a_source_has_few_members() -> None:
    members = members_of(classes_of("loader.pipeline.reading")["Source"])
    assert len(members) <= BUDGET["members_of_source"], sorted(members)


def test_a_storage_has_few_members() -> None:
    """A new storage implements them all; what follows from them is a function."""
    members = members_of(classes_of("loader.storage")["Storage"])
    assert len(members) <= BUDGET["members_of_storage"], sorted(members)


def test_a_stage_replaces_few_members() -> None:
    classes = classes_of("loader.pipeline", "loader.testing")
    base = members_of(classes["SavableDataset"])
    stages = [node for name, node in classes.items() if name.endswith(("Dataset", "RankStage", "Values"))]
    replaced = {name for node in stages if node.name != "SavableDataset" for name in members_of(node)}
    assert len(base & replaced) <= BUDGET["members_of_a_stage"], sorted(base & replaced)


def members_of(node: ast.ClassDef) -> set[str]:
    """Return the public names that the body of a class defines."""
    assigned = [target for each in node.body if isinstance(each, ast.Assign) for target in each.targets]
    names = {ast.unparse(target) for target in assigned}
    names |= {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    names |= {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
    return {name for name in names if not name.startswith("_")}


def test_few_modules_are_named_load() -> None:
    names = [source.module.rpartition(".")[2] for source in own_files() if not source.is_package]
    named = [name for name in names if "load" in name]
    assert len(named) <= BUDGET["modules_named_load"], named


def test_every_class_has_a_name_of_its_own() -> None:
    """Private classes may share a name: each is used in its own file alone."""
    modules: dict[str, list[str]] = defaultdict(list)
    for source in own_files():
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(source.module)
    assert not {name: places for name, places in modules.items() if len(places) > 1}


def test_rooms_import_each_other_one_way() -> None:
    found = {
        source.module: circles(imports_between_siblings(source.module)) for source in own_files() if source.is_package
    }
    assert not {package: circle for package, circle in found.items() if circle}


def test_files_import_each_other_one_way() -> None:
    assert not circles(imports_between_files())


# -------------------------------------------------------------------------------------------- the requirements


def requirements() -> set[str]:
    """Return the names of the distributions that an installation brings along."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {re.split(r"[<>=!~;\[ ]", line, maxsplit=1)[0] for line in project["dependencies"]}


def test_every_requirement_is_imported() -> None:
    imported = {
        imported.target.partition(".")[0]
        for source in sources()
        for imported in source.imports()
        if not imported.type_checking
    }
    names = {name: IMPORTED_AS.get(name, name.replace("-", "_")) for name in requirements()}
    assert not sorted(name for name, package in names.items() if package not in imported)


# ------------------------------------------------------------------------------------ the checks see a fault


@pytest.mark.parametrize(
    ("module", "line", "check"),
    [
        ("loader.unknown.module", "", missing_layer),
        ("loader.storage.local", "from ..format import prepare", upward_imports),
        ("loader.storage.local", "from .. import format", upward_imports),
        ("loader.storage.local", "def f():\n    from ..format.tar_scan import scan", upward_imports),
        ("loader.prepare.run", "import energon_cli.main", upward_imports),
        ("loader.engine.workers", "from .. import EnergonError", upward_imports),
        ("loader.training.datasets.chain", "def f():\n    from ...convert import sources", imports_of_guests),
        ("loader.prepare.run", "from loader.errors import EnergonError", absolute_imports_of_own_package),
        ("loader.prepare.run", "import loader.errors", absolute_imports_of_own_package),
        ("loader.prepare.run", "def f():\n    import torch.nn", forbidden_imports),
        ("loader.order.blend", "if TYPE_CHECKING:\n    from torch import Tensor", forbidden_imports),
        ("loader.errors", "importlib.import_module('webdataset')", forbidden_imports),
        ("loader.training.datasets.chain", "from megatron.energon import Sample", upward_imports),
        ("energon_cli.commands.look.info", "def f():\n    import megatron.energon.cli.main", upward_imports),
        ("loader.training.datasets.chain", "from megatron.energon import Sample", absolute_imports_of_own_package),
        ("energon_cli.commands.look.info", "from loader.format.tar.scan import TarScan", imports_below_the_faces),
        ("energon_cli.commands.look.info", "def f():\n    import loader.format.tar.scan", imports_below_the_faces),
        ("loader.order.blend", "from functools import cached_property", locking_properties),
        ("loader.order.blend", "import functools\nclass A:\n    a = functools.cached_property(f)", locking_properties),
        ("loader.prepare.run", "def f(x):\n    assert x", asserts_and_prints),
        ("energon_cli.commands.look.info", "print('done')", asserts_and_prints),
    ],
)
def test_the_checks_find_a_fault(module: str, line: str, check: Check) -> None:
    assert list(check(parse(line, module=module)))


@pytest.mark.parametrize(
    ("module", "line", "check"),
    [
        ("loader.prepare.run", "from ..errors import EnergonError\nfrom .commit import run", upward_imports),
        ("loader.prepare.run", "from ..version import __version__", upward_imports),
        ("loader.prepare.run", "from .. import __version__", upward_imports),
        ("loader.inspect.facts", "from ..convert import sources", imports_of_guests),
        ("loader.samples.types", "import torch", forbidden_imports),
        ("energon_cli.commands.look.info", "from loader.format import run_prepare", absolute_imports_of_own_package),
        (ALIAS, "from loader import __all__\nimport loader.errors", absolute_imports_of_own_package),
        ("energon_cli.commands.look.info", "from loader.inspect import path_facts", imports_below_the_faces),
        ("energon_cli.commands.look.info", "from loader.errors import ConfigError", imports_below_the_faces),
        ("energon_cli.commands.look.info", "from loader import __version__", imports_below_the_faces),
        ("energon_cli.commands.look.info", "from loader.format import jsonl", imports_below_the_faces),
        ("loader.inspect.facts", "from loader.format.tar.scan import TarScan", imports_below_the_faces),
        (
            f"{ALIAS}.tools.info",
            "from energon_cli.commands.look.info import info\nfrom loader.errors import E",
            upward_imports,
        ),
        ("loader.integrations.loop", "import megatron.core", upward_imports),
        ("loader.order.blend", "from ..cached_property import cached_property", locking_properties),
    ],
)
def test_the_checks_let_the_rest_pass(module: str, line: str, check: Check) -> None:
    assert not list(check(parse(line, module=module)))


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": {"d"}}, [["a", "b", "c"], ["d", "e"]]),
    ],
)
def test_circles_are_found(graph: Mapping[str, set[str]], expected: list[list[str]]) -> None:
    assert circles(graph) == expected


def test_imports_for_type_checkers_alone_are_marked() -> None:
    source = parse("import a\nif TYPE_CHECKING:\n    import b", module="loader.errors")
    assert [(imported.target, imported.type_checking) for imported in source.imports()] == [("a", False), ("b", True)]
