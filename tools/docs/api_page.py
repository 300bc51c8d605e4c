"""The pages of the Python API, which read the same in a clone and on the site.

`tools/docs/api/` has a page for each purpose, with its examples and names. A line `::: NAME` there
becomes an entry: signature, arguments, result and errors, all read from the source, so that no host
trainer has to be installed. The entry keeps the line in a comment, and on the site
`hook.on_page_markdown` lets mkdocstrings write the entry, with links between types.
An entry may list the `members` that it shows. The index has a line for each entry.

print(page("tasks"), index())
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
API = Path(__file__).with_name("api")
PURPOSES = (
    "train", "tasks", "environments", "rewards", "runs", "loops", "sandbox",
    "extend", "types", "batches",
)  # fmt: skip
"""Pages in the order of the index."""
DIRECTIVE = re.compile(r"^::: (\S+)\n((?: .+\n)*)", re.M)
ENTRY = re.compile(r"<!-- (::: \S+\n(?: [^\n]+\n)*)-->\n.*?<!-- end of the entry -->\n", re.S)
"""An entry of the page; its first group is the directive for mkdocstrings."""
SHORT = re.compile(r"(?:[A-Z]\w*\.)?\w+$")
"""The name of a class or function, or of a class with its method, without the modules."""
SELF_EVIDENT: Mapping[str, Mapping[str, str]] = {
    "Task": {"provenance": "where the task comes from; empty: from itself"},
    "ToolCall": {"name": "name of the tool", "arguments": "value of each argument, by its name"},
    "Trajectory": {
        "task_id": "id of the task",
        "seed": "random seed of the rollout",
        "stop": "why the rollout ended, such as `done` or `context`",
    },
    "Group": {
        "task": "the task that all of them tried",
        "trajectories": "its K trajectories",
        "policy_version": "version of the policy when they began",
    },
    "read_tasks": {"path": "a file of tasks: JSON lines or a table; or the folder of a data set"},
    "write_tasks": {"path": "the file to write", "tasks": "what to write, in this order"},
    "open": {"path": "the folder of a run"},
    "read_parquet": {"path": "a file of the run's folder `trajectories`"},
    "grpo_args": {
        "config": "settings of the run",
        "output_dir": "folder of the run, as in `GRPOConfig`",
        "others": "arguments of `GRPOConfig`, such as `logging_steps=5`",
    },
    "Execution": {
        "stdout": "what the program printed",
        "stderr": "what it printed as errors",
        "status": "how it ended, such as `ok` or `limit`",
    },
    "Engine": {"capabilities": "what the engine can do, such as taking weights"},
    "EngineOptions": {"config": "settings of the run"},
    "ToolSpec": {"name": "name of the tool", "description": "what it does, as the policy reads it"},
    "ToolResult": {"content": "text of the result, or why the call failed"},
    "Message": {"role": "who speaks", "content": "the text"},
    "Step": {"verdict": "what the dialect read", "finish": "why the generation ended"},
    "Span": {"ids": "the token ids"},
    "Lease": {"task": "the task"},
    "Drawn": {"task": "the task"},
    "Judgement": {
        "task_id": "id of the task",
        "category": "category of the task",
        "n_valid": "members of the group that count",
        "region": "`hard`, `boundary` or `mastered`",
        "policy_version": "version of the policy that rolled it out",
        "step": "update of the judgement",
    },
    "Batch": {"groups": "groups of the update", "trajectories": "members of all groups"},
    "Sample": {"task_id": "id of the task"},
    "Parsed": {"verdict": "whether the text is a call, an answer or an error"},
    "RuleOutcome": {"right": "whether the trajectory is right"},
    "Split": {"train": "tasks to train on", "held_out": "tasks to evaluate on"},
    "SuiteRules": {"name": "name of the benchmark", "environment": "what opens its tasks"},
}
"""Meanings that no docstring of the source has to state."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
MARK = "<!-- blocks: test test_the_python_of_the_api_pages_runs -->"
"""What tests do with the examples of a page."""
OPTIONAL = "none"
"""Default of further arguments by name (`**others`)."""
WIDTH = 96
"""A longer signature has a line for each argument."""


def page(purpose: str) -> str:
    """Return a page as Markdown, with links to its entries below the title."""
    title, _, text = _source(purpose).partition("\n\n")
    names = [f"[`{SHORT.findall(name)[0]}`](#{name})" for name, _ in entries(text)]
    links = " · ".join([*names, "[all names](index.md)"])
    text = DIRECTIVE.sub(lambda found: _block(*found.groups()), text)
    return f"{title}\n\n{links}\n\n{MARK}\n\n{text}"


def index() -> str:
    """Return the index: the names of `rods`, then the other names of each page."""
    found = [(purpose, name) for purpose in PURPOSES for name, _ in entries(_source(purpose))]
    top = [(purpose, name) for purpose, name in found if name.count(".") == 1]
    parts = [_source("index").rstrip(), _lines(top), "## Other names, by purpose"]
    for purpose in PURPOSES:
        if others := [row for row in found if row[0] == purpose and row not in top]:
            title = _source(purpose).partition("\n")[0].removeprefix("# ")
            parts += [f"### [{title}]({purpose}.md)", _lines(others)]
    return "\n\n".join(parts) + "\n"


def _lines(names: Iterable[tuple[str, str]]) -> str:
    """Return a table: each name with a link to its entry, and the first sentence about it."""
    rows = ["| name | what it is or does |", "|---|---|"]
    for purpose, name in names:
        words = re.split(r"(?<=\.)\s", _text(definition(name)))[0].rstrip(".")
        rows.append(f"| [`{name}`]({purpose}.md#{name}) | {words} |")
    return "\n".join(rows)


def _source(name: str) -> str:
    return (API / f"{name}.md").read_text(encoding="utf-8")


def for_the_site(text: str) -> str:
    """Return the page with each entry as a directive of mkdocstrings."""
    return ENTRY.sub(r"\1", text)


def entries(text: str) -> list[tuple[str, str]]:
    """Return the name of each entry of a page, and its options."""
    return DIRECTIVE.findall(for_the_site(text))


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


def _block(name: str, options: str) -> str:
    """Return an entry as Markdown, between comments that hold its directive."""
    blocks = "\n\n".join(filter(None, _entry(name, options)))
    return f"<!-- ::: {name}\n{options}-->\n{blocks}\n<!-- end of the entry -->\n"


def _entry(name: str, options: str) -> list[str]:
    """Return the blocks of one entry."""
    node = definition(name)
    blocks = [f'## <a id="{name}"></a>`{name}`']
    if isinstance(node, ast.FunctionDef):
        blocks += [_code(_signature(name, node)), _text(node), _table(node)]
        return [*blocks, _result(node), _errors(node)]
    inits = [f for f in node.body if isinstance(f, Function) and f.name == "__init__"]
    if "show_signature: false" not in options:
        blocks.append(_code(_signature(name, inits[0]) if inits else _fields(name, node)))
    blocks.append(_text(node))
    if "show_signature: false" not in options:
        blocks += [_table(node, *inits), *map(_errors, inits)]
    if node.name == "RunConfig":
        blocks.append("Each [setting or section of settings](../settings.md) is an attribute.")
    shown = re.findall(r"[a-z_]+", options.partition("members: [")[2].partition("]")[0])
    methods = [f for f in node.body if isinstance(f, Function) and not f.name.startswith("_")]
    methods = [f for f in methods if f.name in shown or "members: [" not in options]
    return [*blocks, _members(node), "\n".join(_method(function) for function in methods)]


def _members(node: ast.ClassDef) -> str:
    """Return the values of an enumeration as a list, with the text behind each."""
    if "StrEnum" not in map(ast.unparse, node.bases):
        return ""
    rows = [
        f"* `{ast.literal_eval(value.value)}`: {' '.join(ast.literal_eval(after.value).split())}"
        for value, after in pairwise(node.body)
        if isinstance(value, ast.Assign) and isinstance(after, ast.Expr)
    ]
    return "\n".join(rows)


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


def _table(*nodes: ast.ClassDef | Function) -> str:
    """Return a row for each argument or field that has a meaning: type, default, meaning."""
    kinds = {key: value for node in nodes for key, value in _kinds(node)}
    words = {**meanings(*nodes), **SELF_EVIDENT.get(nodes[0].name, {})}
    rows: list[str] = []
    for name in filter(words.__contains__, kinds):
        text = words[name][:1].upper() + words[name][1:].rstrip(".")
        rows.append(f"| `{name}` | {' | '.join(map(_cell, kinds[name]))} | {text} |")
    head = "| argument | type | default | meaning |\n|---|---|---|---|"
    return "\n".join([head, *rows]) if rows else ""


def _kinds(node: ast.ClassDef | Function) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield type and default of each argument of a function, or of each field of a class."""
    if isinstance(node, ast.ClassDef):
        for row in node.body:
            if isinstance(row, ast.AnnAssign):
                value = ast.unparse(row.value) if row.value else ""
                yield ast.unparse(row.target), (ast.unparse(row.annotation), value)
        return
    for text in _arguments(node.args):
        name, _, rest = text.lstrip("*").partition(": ")
        kind, _, default = rest.partition(" = ")
        yield name, (kind, OPTIONAL if text.startswith("**") else default)


def _cell(code: str) -> str:
    text = code.replace("|", "\\|")
    return text if text == OPTIONAL else f"`{text}`" if text else "required"


def _result(node: Function) -> str:
    """Return what a function returns: its type, and its section `Returns`."""
    words = _returned(node).partition(":** ")[2]
    kind = ast.unparse(node.returns) if node.returns else "None"
    return f"**Returns:** `{kind}`" + (f": {words}" if words else ".")


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
    line = f"* `{words}`: {_meaning(node)}".replace("( ", "(").replace(", )", ")").rstrip(": ")
    given = [f"    * `{name}`: {text}." for name, text in meanings(node).items()]
    return "\n".join([line, *given])


def _meaning(node: ast.AST) -> str:
    """Return the first paragraph of a docstring, then what is returned and raised."""
    first = " ".join(_docs(node).partition("\n\n")[0].split())
    return first + _returned(node) + _raised(node)


def _text(node: ast.AST) -> str:
    """Return a docstring without its sections."""
    return " ".join(re.split(r"\n\n(?=\w+:\n)", _docs(node))[0].split())


def _errors(node: Function) -> str:
    """Return the errors of a function as a list, which a sentence opens."""
    rows = [" ".join(row.split()).partition(": ") for row in _rows(_docs(node), "Raises")]
    lines = [f"* `{kind}`: {words.rstrip('.')}." for kind, _, words in rows]
    return "\n".join(["**Raises:**", "", *lines]) if lines else ""


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
