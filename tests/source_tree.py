"""The project's source files as syntax trees: what each module imports and defines."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALIAS = "megatron.energon"
"""The package that training code for megatron-energon imports. Its folder is inside ``loader``."""
FREE = "energon_toolkit"
"""The library under a name that no program has for a module of its own. Its folder is inside ``loader``, too."""
PACKAGES = {
    "energon_cli": "energon_cli",
    "loader": "loader",
    FREE: "loader/compat/energon_toolkit",
    ALIAS: "loader/compat/megatron_energon",
}
"""The packages that are installed, and their folders."""


def rows_of_layers() -> list[tuple[list[str], str]]:
    """Return the rows of the table of layers in docs/explanation/architecture.md: modules, and the first cell."""
    text = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    cells = re.findall(
        r"^\| (.*?) \|", text.partition("| layer | contents |\n|---|---|\n")[2].partition("\n\n")[0], re.MULTILINE
    )
    names = [re.findall(r"`([\w./]+)`|\[([\w/]+)\]", cell) for cell in cells]
    modules = [[(code or link).removesuffix(".py").replace("/", ".") for code, link in row] for row in names]
    return list(zip(modules, cells, strict=True))


TORCH = "loader.lazy_torch"
"""The module at the line of torch in the table of layers: it and all above it may import torch."""
LAYERS = tuple(name for modules, _ in reversed(rows_of_layers()) for name in reversed(modules or [TORCH]))
"""From the bottom up; a module may import its own layer and those before it."""
GUESTS = {name for modules, cell in rows_of_layers() if "(guest)" in cell for name in modules}
"""Layers that the others below the commands, the core, do not import."""
BELOW_TORCH = LAYERS[: LAYERS.index(TORCH)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported module or name.

    Attributes:
        target: Full dotted name.
        relative: The import is relative.
        line: Line in the file, from 1.
        type_checking: Only type checkers run the import.
    """

    target: str
    relative: bool
    line: int
    type_checking: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """One module: its dotted name, whether it is a package's ``__init__``, and its tree."""

    module: str
    is_package: bool
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        gc.disable()  # nothing of a tree is garbage, and to visit all trees again and again takes longer than to parse
        try:
            return ast.parse(self.text, filename=str(self.path))
        finally:
            gc.enable()

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    def imports(self) -> tuple[Import, ...]:
        """Return every name that any import statement imports, also inside functions and under conditions."""
        return self._imports

    @cached_property
    def _imports(self) -> tuple[Import, ...]:
        unread = {
            id(inner)
            for node in self.nodes
            if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
            for statement in node.body
            for inner in ast.walk(statement)
        }
        return tuple(
            Import(target=target, relative=relative, line=node.lineno, type_checking=id(node) in unread)
            for node in self.nodes
            if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)
            for target, relative in self._targets(node)
        )

    def _targets(self, node: ast.AST) -> Iterator[tuple[str, bool]]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, False
        elif isinstance(node, ast.ImportFrom):
            module = self._resolve(node)
            for alias in node.names:
                yield f"{module}.{alias.name}", node.level > 0
        elif isinstance(node, ast.Call) and _called_name(node) in ("import_module", "__import__"):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value, False

    def _resolve(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.module if self.is_package else self.module.rpartition(".")[0]
        for _ in range(node.level - 1):
            package = package.rpartition(".")[0]
        return f"{package}.{node.module}" if node.module else package

    def listed_names(self) -> list[str] | None:
        """Return ``__all__`` as it is written, None if there is none."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
                return list(ast.literal_eval(node.value))
        return None

    def grows_listed_names(self) -> bool:
        """Return True if the module extends ``__all__``, which hides from a reader what is public."""
        return any(isinstance(node, ast.AugAssign) and ast.unparse(node.target) == "__all__" for node in self.nodes)

    def bound_names(self) -> set[str]:
        """Return the names that the module's top level binds."""
        return {name for node in self._top_level() for name in _names_bound(node)}

    def public_definitions(self) -> set[str]:
        """Return the classes and functions that the module defines and does not name with an underscore."""
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        return {node.name for node in self._top_level() if isinstance(node, kinds) and not node.name.startswith("_")}

    def public_reexports(self) -> set[str]:
        """Return the public names that the top level takes from this package's own modules."""
        return {
            alias.asname or alias.name
            for node in self._top_level()
            if isinstance(node, ast.ImportFrom) and node.level == 1
            for alias in node.names
            if not (alias.asname or alias.name).startswith("_")
        }

    def _top_level(self) -> Iterator[ast.stmt]:
        pending: list[ast.stmt] = list(self.tree.body)
        while pending:
            node = pending.pop(0)
            yield node
            if isinstance(node, ast.If | ast.Try):
                pending[:0] = [*node.body, *node.orelse]
            if isinstance(node, ast.Try):
                pending[:0] = [statement for handler in node.handlers for statement in handler.body]


def parse(text: str, *, module: str, is_package: bool = False) -> Source:
    return Source(module=module, is_package=is_package, path=Path(f"<{module}>"), text=text)


def layer_of(name: str) -> str | None:
    """Return the layer of a module, or of a name in it; None if it is in no layer."""
    return next((layer for layer in LAYERS if name == layer or name.startswith(f"{layer}.")), None)


@cache
def sources() -> tuple[Source, ...]:
    """Read every module of the project, in the order of their names."""
    found = []
    for package, folder in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            if package == "loader" and any(path.is_relative_to(ROOT / PACKAGES[inner]) for inner in (FREE, ALIAS)):
                continue
            parts = (package, *path.relative_to(ROOT / folder).with_suffix("").parts)
            is_package = parts[-1] == "__init__"
            module = ".".join(parts[:-1] if is_package else parts)
            found.append(Source(module=module, is_package=is_package, path=path, text=path.read_text(encoding="utf-8")))
    return tuple(found)


def is_own(name: str) -> bool:
    """Return True if a module, or a name in one, belongs to the project."""
    return any(name == package or name.startswith(f"{package}.") for package in PACKAGES)


@cache
def imports_between_files() -> dict[str, set[str]]:
    """Return each module with the modules it imports; the alias aside, since it imports what it aliases.

    A module inside a package runs the package's ``__init__`` whatever it imports, so that edge is omitted.
    """
    modules = {source.module: source for source in sources() if layer_of(source.module) != ALIAS}
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for module, source in modules.items():
        for imported in source.imports():
            target = imported.target
            while target and target not in modules:
                target = target.rpartition(".")[0]
            if target and target != module and not module.startswith(f"{target}."):
                graph[module].add(target)
    return graph


def imports_between_siblings(package: str) -> dict[str, set[str]]:
    """Return the modules and rooms directly inside a package, each with the siblings that it imports."""
    prefix = f"{package}."
    graph: dict[str, set[str]] = {}
    for module, targets in imports_between_files().items():
        if module.startswith(prefix):
            own = module.removeprefix(prefix).partition(".")[0]
            siblings = {
                target.removeprefix(prefix).partition(".")[0] for target in targets if target.startswith(prefix)
            }
            graph.setdefault(own, set()).update(siblings - {own})
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of two or more nodes that can all reach each other, sorted."""
    reachable = {node: _reachable(graph, node) for node in graph}
    groups = {tuple(sorted(other for other in reachable[node] if node in reachable[other])) for node in graph}
    return sorted(list(group) for group in groups if len(group) > 1)


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found = {start}
    pending = [start]
    while pending:
        for node in graph.get(pending.pop(), ()):
            if node in graph and node not in found:
                found.add(node)
                pending.append(node)
    return found


def _called_name(node: ast.Call) -> str | None:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else None


def _names_bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))
