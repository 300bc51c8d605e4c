"""Which dialect a chat template instructs, by the example that it shows."""

from __future__ import annotations

import json

import pytest

from rods.dialects import DIALECTS
from rods.evaluation.template_tools import instructed_dialect

TOOL = {
    "type": "function",
    "function": {
        "name": "function_of_time",
        "description": 'Reads {"name": "x", "parameters": {}} and [f(a=1)].',
        "parameters": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}
SHOWN = f"# Tools\n<tools>\n{json.dumps(TOOL)}\n</tools>\n{json.dumps(TOOL, indent=4)}\n"
"""Tools as templates show them; their text must not be taken for an instruction."""

QWEN3_CODER = (
    "in the following format:\n\n<tool_call>\n<function=example_function_name>\n"
    "<parameter=example_parameter_1>\nvalue_1\n</parameter>\n</function>\n</tool_call>\n"
)
PLACEHOLDERS = "[func_name1(params_name1=params_value1, params_name2=params_value2...)"
INSTRUCTIONS = [
    ("xml", QWEN3_CODER),
    ("xml", "<tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>"),
    ("hermes", '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'),
    ("hermes", '<tool_call>\n{"name": <function-name>, "arguments": <args-dict>}\n</tool_call>'),
    ("hermes", '<tool_call>\n{"arguments": <args-dict>, "name": <function-name>}\n</tool_call>'),
    ("hermes", '<tool_call>{"name": "function_name", "arguments": {"a": 1}}</tool_call>'),
    ("hermes", '<tool_call>\n{{"name": <function-name>, "arguments": <args>}}'),
    ("llama", '{"name": function name, "parameters": dictionary of argument name and its value}.'),
    ("pythonic", f"{PLACEHOLDERS}, func_name2(params)]"),
    ("pythonic", "Use exact format: [func_name1(param1=value1, param2=value2), func_name2(...)]"),
]


@pytest.mark.parametrize(("name", "instruction"), INSTRUCTIONS)
def test_the_instructed_dialect_is_recognised(name: str, instruction: str) -> None:
    assert name in DIALECTS
    assert instructed_dialect(f"<|im_start|>system\nHelp.\n{SHOWN}{instruction}") == name
    assert instructed_dialect(f"{instruction}\n{SHOWN}<|im_end|>") == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "You are a helpful assistant.",
        "[AVAILABLE_TOOLS][{}][/AVAILABLE_TOOLS]",
        '<TOOLCALL>[{{"name": "tool_name1", "arguments": "tool_args1"}}]</TOOLCALL>',
        "<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>\n</tool_call>",
        "<seed:tool_call>\n<function=example_function_name>\n",
        '<tools>\n{"name": "get_weather", "arguments": {"city": "Tokyo"}}\n</tools>',
        "<function_calls>\nget_weather(city='New York')\n</function_calls>",
        '[{"name": "tool_call_name", "arguments": {"arg1": "value1"}}]',
        "Put calls within <tool_call></tool_call> tags.",
    ],
)
def test_a_format_that_no_dialect_reads_is_none(text: str) -> None:
    assert instructed_dialect(f"Help.\n{SHOWN}{text}\n") is None


@pytest.mark.parametrize("piece", ["<tool_call>", '{"name": ', "[func(a=", "<tool_call>\n{"])
def test_long_text_takes_no_time(piece: str) -> None:
    assert instructed_dialect(piece * (1_000_000 // len(piece))) is None
