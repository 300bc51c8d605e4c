"""Minimal chat templates with the structure of model families, in ChatML's special tokens.

Each has the one peculiarity for which its family is known; the wording is ours.
"""

from __future__ import annotations

HEAD = "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
CALLS = (
    "{%- for c in m.tool_calls or [] %}\n<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}'
    "\n</tool_call>{% endfor %}"
)
TOLD = (
    "{%- if tools %}<|im_start|>system\nCall as <tool_call>\n"
    '{"name": "f", "arguments": {}}\n</tool_call>\n'
    "{%- for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
)


def turns(
    result: str, call: str = CALLS, told: str = TOLD, system: str = "", head: str = HEAD
) -> str:
    """A template of which the text of a result, of calls and of the tools are given."""
    first = (
        "{%- if m.role == 'system' %}" + system + "{%- elif m.role == 'tool' %}"
        if system
        else ("{%- if m.role == 'tool' %}")
    )
    return (
        f"{told}{{%- for m in messages %}}{first}{result}"
        "{%- else %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        f"{call}<|im_end|>\n{{% endif %}}{{%- endfor %}}{head}"
    )


RESULT = "<|im_start|>tool\n{{ m.content }}<|im_end|>\n"
PLAIN = turns(RESULT)
PHI3 = turns("{{- '' }}", call="", told="")
"""Results are left out without a word."""
COHERE2 = {"default": PHI3, "tool_use": PLAIN}
"""Results are left out by the default, shown by the template with tools."""
NAMED = {"default": turns("<|im_start|>user\n{{ m.content }}<|im_end|>\n"), "tool_use": PLAIN}
"""Results are written otherwise by the template with tools."""
NO_SYSTEM = turns(RESULT, system="{{- '' }}")
"""Instructions of the system are left out without a word."""
GEMMA2 = turns(
    "{{ raise_exception('no tools') }}", told="", system="{{ raise_exception('no system') }}"
)
NAMES = turns("<|im_start|>{{ m.name }} to=assistant\n{{ m.content }}<|im_end|>\n")
"""A result is headed by the name of its function."""
MISTRAL = turns(
    "{%- if m.tool_call_id | length != 9 %}{{ raise_exception('no id') }}{% endif %}"
    '<|im_start|>results\n{"content": {{ m.content | tojson }}, "id": "{{ m.tool_call_id }}"}'
    "<|im_end|>\n",
    call="{%- if m.tool_calls %}[TOOL_CALLS][{%- for c in m.tool_calls %}"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, '
    '"id": "{{ c.id }}"}{%- if not loop.last %}, {% endif %}{% endfor %}]{% endif %}',
    told="{%- if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}",
)
"""Calls in a form of its own, each with an id of nine characters that results repeat."""
MISTRAL3 = MISTRAL.replace(
    "{{ m.content }}{%- if m.tool_calls", "{% if not m.tool_calls %}{{ m.content }}{% endif %}"
    "{%- if m.tool_calls"
)  # fmt: skip
"""As Mistral's, and an assistant's message shows either its calls or its words."""
XML = turns(
    RESULT,
    call="{%- for c in m.tool_calls or [] %}\n<tool_call>\n<function={{ c.function.name }}>\n"
    "{%- for k, v in c.function.arguments.items() %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n"
    "{%- endfor %}</function>\n</tool_call>{% endfor %}",
    told="{%- if tools %}<|im_start|>system\nCall as <tool_call>\n<function=f>\n<parameter=p>\nv\n"
    "</parameter>\n</function>\n</tool_call>\n{{ tools | tojson }}<|im_end|>\n{% endif %}",
)
"""Calls in XML, as newer Qwen and Nemotron models write them."""
NEMOTRON = XML.replace(
    "<|im_start|>{{ m.role }}\n{{ m.content }}",
    "<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}<think></think>{% endif %}"
    "{{ m.content }}",
).replace(
    HEAD, "{%- if add_generation_prompt %}<|im_start|>assistant\n<think>\n{{ '' }}{% endif %}"
)
"""Calls in XML; a thought is opened for a generation, and shown as an empty one afterwards."""
GLM = turns(
    RESULT,
    call="{%- for c in m.tool_calls or [] %}\n<tool_call>{{ c.function.name }}\n"
    "{%- for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>\n"
    "<arg_value>{{ v }}</arg_value>\n{%- endfor %}</tool_call>{% endfor %}",
    told="{%- if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}",
    head="{%- if add_generation_prompt %}<|im_start|>assistant\n<think>{% endif %}",
)
"""Calls in a form of its own, whose first letter is that of the thought it opens."""
LLAMA31 = turns(
    "<|im_start|>ipython\n{{ m.content | tojson }}<|im_end|>\n",
    call="{%- if m.tool_calls %}{%- if m.tool_calls | length > 1 %}"
    "{{ raise_exception('one call at once') }}{% endif %}"
    '{"name": "{{ m.tool_calls[0].function.name }}", '
    '"parameters": {{ m.tool_calls[0].function.arguments | tojson }}}{% endif %}',
    told="{%- if tools %}<|im_start|>system\nAnswer in the form "
    '{"name": function name, "parameters": dictionary of arguments}. {{ tools | tojson }}'
    "<|im_end|>\n{% endif %}",
)
"""Calls with parameters, one at once; results as JSON text."""
DEEPSEEK = (
    "{%- set ns = namespace(first=true, tool=false) %}"
    + TOLD
    + "{%- for m in messages %}{%- set after = ns.tool %}{%- set ns.tool = m.role == 'tool' %}"
    "{%- if ns.tool and ns.first %}{%- set ns.first = false %}"
    "<|im_start|>outputs\n<|im_start|>output\n{{ m.content }}<|im_end|>"
    "{%- elif ns.tool %}\n<|im_start|>output\n{{ m.content }}<|im_end|>"
    "{%- else %}{%- if not (after and m.role == 'assistant') %}<|im_start|>{{ m.role }}\n"
    "{% endif %}{{ m.content }}" + CALLS + "<|im_end|>"
    "{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt and not ns.tool %}<|im_start|>assistant\n<think>\n{{ '' }}"
    "{% endif %}"
)
"""The first result of a conversation is written otherwise than any later one; a thought is
opened after a user's message; after results the assistant goes on without a header."""
