"""The list of the Python API: signature and first sentence of each entry of docs/reference/api.md.

It is read from the source, so that no host trainer has to be installed.

print(page())
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
API = ROOT / "docs" / "reference" / "api.md"
START = """# Which names has the Python API, in one line each?

The [Python API](api.md) explains each name, with examples and all arguments. Classes of data are
listed without arguments.
"""


def page() -> str:
    """Return the list as Markdown."""
    blocks = [START.rstrip()]
    for part in re.split(r"^## ", API.read_text(encoding="utf-8"), flags=re.M)[1:]:
        title = part.partition("\n")[0]
        rows = [_row(name) for name in re.findall(r"^::: (\S+)$", part, re.M)]
        blocks += [f"## {title}", "\n".join(["| name | what it does |", "|---|---|", *rows])]
    return "\n\n".join(blocks) + "\n"


def _row(name: str) -> str:
    node = definition(name)
    text = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
    return f"| `{_cell(name + _arguments(node))}` | {_cell(text)} |"


def definition(name: str) -> ast.ClassDef | ast.FunctionDef:
    """Return the class or function, from the module that defines it or one that it imports."""
    module, _, attribute = name.rpartition(".")
    path = ROOT / "src" / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == attribute:
            return node
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and attribute in [n.name for n in node.names]:
            return definition(f"{node.module}.{attribute}")
    raise LookupError(f"{API}: {name} is not defined in {path}")


def _arguments(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return the arguments of a function or of a class's `__init__`, if it has one."""
    if isinstance(node, ast.ClassDef):
        inits = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        return _arguments(inits[0]) if inits else ""
    return f"({', '.join(name for name in _names(node.args) if name != 'self')})"


def _names(args: ast.arguments) -> Iterator[str]:
    yield from (arg.arg for arg in (*args.posonlyargs, *args.args))
    if args.vararg or args.kwonlyargs:
        yield f"*{args.vararg.arg if args.vararg else ''}"
    yield from (arg.arg for arg in args.kwonlyargs)
    if args.kwarg:
        yield f"**{args.kwarg.arg}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
