"""The page on the program's verbs, from the program itself.

print(page())
"""

from __future__ import annotations

import inspect
from typing import Any

from typer.main import get_command

from rods.cli.main import app

START = """# Commands

<!-- blocks: shown -->

This page lists every command of `rods` with its arguments and options. In a terminal,
`rods COMMAND --help` prints the same.

Commands that take settings accept [every setting](settings.md) as an option: `--section.key VALUE`.
If you made an error, the command ends with status 2. [Exit codes](exit-codes.md) lists the others.
"""


def page() -> str:
    """Return the page as Markdown."""
    program: Any = get_command(app)
    verbs = [_verb(name, verb) for name, verb in program.commands.items()]
    return "\n\n".join([START.rstrip(), *verbs]) + "\n"


def _verb(name: str, verb: Any) -> str:
    context = verb.make_context(f"rods {name}", [], resilient_parsing=True)
    records = [p.get_help_record(context) for p in verb.get_params(context)]
    rows = [
        f"| `{_cell(names)}` | {_cell(text).replace('] [', '; ')} |"  # else it reads as a link
        for names, text in filter(None, records)
    ]
    usage = " ".join(["rods", name, *verb.collect_usage_pieces(context)])
    settings = " [--section.key VALUE]" * context.ignore_unknown_options
    table = "\n".join(["| option | meaning |", "|---|---|", *rows])
    return "\n\n".join([f"## rods {name}", f"    {usage}{settings}", _description(verb), table])


def _description(verb: Any) -> str:
    """Return the help: paragraphs, and blocks behind a \\b, whose lines stay as they are."""
    blocks: list[str] = []
    for block in inspect.cleandoc(verb.help or "").split("\n\n"):
        if block.startswith("\b"):
            block = "\n".join(f"    {line.strip()}" for line in block[1:].strip("\n").split("\n"))
        blocks.append(block)
    return "\n\n".join(blocks)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
