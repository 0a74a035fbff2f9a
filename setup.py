"""Build the wheel, with stubs of the library as ``energon_toolkit``.

Type checkers run no import hooks, and take ``loader`` for the program's own module if it has one. So the stubs are
copies of the library's modules that need no ``loader``.
"""

import ast
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class _Stub(ast.NodeTransformer):
    """Remove the bodies of functions but ``__init__``, where attributes get their types."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name != "__init__":
            node.body = [ast.Expr(ast.Constant(ast.get_docstring(node, clean=False) or ...))]
        return node


class _BuildWithStubs(build_py):
    """Copies the packages, then writes a stub for each module of the library."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        library = Path(self.build_lib, "loader")
        for source in sorted(library.rglob("*.py*")):
            stub = Path(self.build_lib, "energon_toolkit", source.relative_to(library)).with_suffix(".pyi")
            has_own = source.suffix == ".py" and source.with_suffix(".pyi").exists()
            if source.suffix in (".py", ".pyi") and not has_own:
                tree = ast.parse(source.read_text(encoding="utf-8"))
                stub.parent.mkdir(parents=True, exist_ok=True)
                stub.write_text(ast.unparse(_Stub().visit(tree)), encoding="utf-8")


setup(cmdclass={"build_py": _BuildWithStubs})
