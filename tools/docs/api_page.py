"""The Python API without the site: arguments, meaning, result and errors of each entry of api.md.

An entry may list the `members` that it shows, as on the site. All is read from the source, so that
no host trainer has to be installed.

print(page())
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
API = ROOT / "docs" / "reference" / "api.md"
START = """# What does each name of the Python API take and return?

This page lists each public name as it is imported, with types, defaults, result and errors.
The [Python API](api.md) groups them by purpose, with an example each.
"""
Function = ast.FunctionDef | ast.AsyncFunctionDef
WIDTH = 96
"""A longer signature has a line for each argument."""


def page() -> str:
    """Return the list as Markdown."""
    blocks = [START.rstrip()]
    for part in re.split(r"^## ", API.read_text(encoding="utf-8"), flags=re.M)[1:]:
        blocks.append(f"## {part.partition(chr(10))[0]}")
        for name, options in entries(part):
            blocks += _entry(name, options)
    return "\n\n".join(filter(None, blocks)) + "\n"


def entries(text: str) -> list[tuple[str, str]]:
    """Return each name that the site shows in a text, and the options of its entry."""
    return re.findall(r"^::: (\S+)\n((?: .+\n)*)", text, re.M)


def definition(name: str) -> ast.ClassDef | ast.FunctionDef:
    """Return the class or function, from the module that defines it or one that it imports."""
    module, _, attribute = name.rpartition(".")
    if module.rpartition(".")[2][:1].isupper():
        methods = [n for n in definition(module).body if isinstance(n, ast.FunctionDef)]
        return next(node for node in methods if node.name == attribute)
    path = ROOT / "src" / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == attribute:
            _fill(node, tree)
            return node
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and attribute in [n.name for n in node.names]:
            return definition(f"{node.module}.{attribute}")
    raise LookupError(f"{API}: {name} is not defined in {path}")


def _fill(node: ast.ClassDef | ast.FunctionDef, tree: ast.Module) -> None:
    """Write the values of the module's constants where defaults name them."""
    rows = [row for row in tree.body if isinstance(row, ast.Assign)]
    values = {ast.unparse(row.targets[0]): row.value for row in rows}
    for function in ast.walk(node):
        if isinstance(function, Function):
            args = function.args
            args.defaults = [values.get(ast.unparse(one), one) for one in args.defaults]


def _entry(name: str, options: str) -> list[str]:
    """Return the blocks of one entry."""
    node = definition(name)
    blocks = [f"### `{name}`"]
    if isinstance(node, ast.FunctionDef):
        blocks += [_code(_signature(name, node)), _text(node), _table(node)]
        return [*blocks, (_returned(node) + _raised(node)).strip()]
    inits = [f for f in node.body if isinstance(f, Function) and f.name == "__init__"]
    if "show_signature: false" not in options:
        blocks.append(_code(_signature(name, inits[0]) if inits else _fields(name, node)))
    blocks.append(_text(node))
    if "show_signature: false" not in options:
        blocks += [_table(node, *inits), *(_raised(init).strip() for init in inits)]
    if node.name == "RunConfig":
        blocks.append("Each [setting or section of settings](settings.md) is an attribute.")
    shown = re.findall(r"[a-z_]+", options.partition("members: [")[2].partition("]")[0])
    methods = [f for f in node.body if isinstance(f, Function) and not f.name.startswith("_")]
    methods = [f for f in methods if f.name in shown or "members: [" not in options]
    return [*blocks, "\n".join(_method(function) for function in methods)]


def meanings(*nodes: ast.AST) -> dict[str, str]:
    """Return the meaning of each argument or field, from `Args:` or from the text behind it."""
    found: dict[str, str] = {}
    for node in nodes:
        for row in _rows(_docs(node), "Args"):
            name, _, words = " ".join(row.split()).partition(": ")
            found[name] = words.rstrip(".")
        body = node.body if isinstance(node, ast.ClassDef) else []
        for field, after in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
                found[ast.unparse(field.target)] = " ".join(ast.literal_eval(after.value).split())
    return found


def _table(*nodes: ast.AST) -> str:
    rows = [f"| `{name}` | {text.rstrip('.')} |" for name, text in meanings(*nodes).items()]
    return "\n".join(["| argument | meaning |", "|---|---|", *rows]) if rows else ""


def _code(text: str) -> str:
    return f"```text\n{text}\n```"


def _signature(name: str, node: Function) -> str:
    result = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    return _call(name, [*_arguments(node.args)], result)


def _call(name: str, arguments: list[str], result: str) -> str:
    line = f"{name}({', '.join(arguments)}){result}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in arguments), f"){result}"])


def _arguments(args: ast.arguments) -> Iterator[str]:
    """Yield each argument with type and default, and the star before those by name."""
    usual = [*args.posonlyargs, *args.args]
    defaults = [*[None] * (len(usual) - len(args.defaults)), *args.defaults]
    for arg, default in zip(usual, defaults, strict=True):
        if arg.arg not in ("self", "cls"):
            yield _argument(arg, default)
    if args.vararg or args.kwonlyargs:
        yield f"*{_argument(args.vararg, None) if args.vararg else ''}"
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield _argument(arg, default)
    if args.kwarg:
        yield f"**{_argument(args.kwarg, None)}"


def _argument(arg: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(arg.annotation)}" if arg.annotation else ""
    return f"{arg.arg}{kind}" + (f" = {ast.unparse(default)}" if default else "")


def _fields(name: str, node: ast.ClassDef) -> str:
    """Return a class of data as its constructor, and another class as its name."""
    rows = [row for row in node.body if isinstance(row, ast.AnnAssign)]
    for row in rows:
        if isinstance(row.value, ast.Call) and ast.unparse(row.value.func) == "field":
            known = {one.arg: one.value for one in row.value.keywords}
            made = known.get("default_factory")
            row.value = known.get("default") or (ast.Call(made, [], []) if made else None)
    fields = [ast.unparse(row) for row in rows if not ast.unparse(row.target).startswith("_")]
    is_data = node.decorator_list or any(ast.unparse(b) == "NamedTuple" for b in node.bases)
    if fields and is_data:
        return _call(name, fields, "")
    bases = ", ".join(map(ast.unparse, node.bases))
    return "\n".join([f"class {name}({bases})" if bases else f"class {name}", *fields])


def _method(node: Function) -> str:
    kinds = {ast.unparse(one) for one in node.decorator_list}
    kind = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    result = f": {ast.unparse(node.returns)}" if node.returns else ""
    is_property = any(one.endswith("property") for one in kinds)
    attribute = f"{node.name}{result}" if is_property else ""
    words = attribute or kind + " ".join(_signature(node.name, node).split())
    return f"* `{words}`: {_meaning(node)}".replace("( ", "(").replace(", )", ")").rstrip(": ")


def _meaning(node: ast.AST) -> str:
    """Return the first paragraph of a docstring, then what is returned and raised."""
    first = " ".join(_docs(node).partition("\n\n")[0].split())
    return first + _returned(node) + _raised(node)


def _text(node: ast.AST) -> str:
    """Return a docstring without its sections."""
    return " ".join(re.split(r"\n\n(?=\w+:\n)", _docs(node))[0].split())


def _docs(node: ast.AST) -> str:
    return ast.get_docstring(node) or ""  # pyright: ignore[reportArgumentType]


def _returned(node: ast.AST) -> str:
    return _section(_docs(node), "Returns")


def _raised(node: ast.AST) -> str:
    return _section(_docs(node), "Raises") if not isinstance(node, ast.ClassDef) else ""


def _section(text: str, name: str) -> str:
    """Return a section of a docstring as a sentence; empty if there is none."""
    words = "; ".join(" ".join(row.split()).rstrip(".") for row in _rows(text, name))
    return f" **{name}:** {words}." if words else ""


def _rows(text: str, name: str) -> list[str]:
    """Return the entries of a section of a docstring."""
    found = re.search(rf"^{name}:\n((?: .*\n?|\n)+)", text, re.M)
    return re.split(r"\n(?=    \S)", found[1].strip("\n")) if found else []
