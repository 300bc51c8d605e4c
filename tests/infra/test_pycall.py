"""Python call syntax is read as data and never evaluated."""

import subprocess
import sys

import pytest

from rods.infra.pycall import CallSyntaxError, PyCall, parse_python_calls

ATTACKS = [
    "__import__('os').popen('id').read()",
    "__import__('os').system('touch /tmp/x')",
    "f(x=__import__('os').popen('id').read())",
    "f(x=().__class__.__bases__[0].__subclasses__())",
    "f(x=open)",
    "f(x=lambda: 1)",
    "(lambda: f())()",
    "f(x=[y for y in (1, 2)])",
    "[f(x=i) for i in range(3)]",
    "f(x={k: 1 for k in 'ab'})",
    "f(x=(i for i in 'ab'))",
    "f(x=f'{open}')",
    "f(x=1 if True else 2)",
    "f(x=2 ** 99)",
    "f(x=a.b)",
    "f(*[1, 2])",
    "f(**{'x': 1})",
    "f(x=(y := 2))",
    "f(x=not True)",
    "f(x={1, 2})",
    "f(x=b'bytes')",
    "f(x=1j)",
    "f(x=...)",
    "f(x=(1, 2))",
    "f(x={1: 2})",
    "f(x={**{}})",
    "f(x='a' + 'b')",
    "f(x=-'a')",
    "f(x=-True)",
    "f()()",
    "f[0](x=1)",
    "a.b(x=1)",
    "import os",
    "x = f(y=1)",
    "f(x=1, x=2)",
    "f(x=0x" + "f" * 3000 + ")",
    "f(x=" + "9" * 5000 + ")",
    "just words",
    "f(x='open",
    "f(\x00)",
    "42",
]


@pytest.mark.parametrize("text", ATTACKS, ids=[text[:30] for text in ATTACKS])
def test_only_plain_calls_of_literals_are_read(text: str):
    with pytest.raises(CallSyntaxError):
        parse_python_calls(text)


def test_literals_and_nested_calls_are_read():
    text = "f('a', 2, -1.5, g(h(y=[1, {'k': None}])), z=True, w='it\\'s (sort)')"
    inner = PyCall("h", (), {"y": [1, {"k": None}]})
    expected = PyCall(
        "f", ("a", 2, -1.5, PyCall("g", (inner,), {})), {"z": True, "w": "it's (sort)"}
    )
    assert parse_python_calls(text) == [expected]


@pytest.mark.parametrize("text", ["[a(x=1), b()]", "a(x=1), b()", "a(x=1)\nb()", " (a(x=1), b())"])
def test_several_calls(text: str):
    assert [call.name for call in parse_python_calls(text)] == ["a", "b"]


def test_no_call_at_all():
    assert parse_python_calls("[]") == []
    assert parse_python_calls("") == []


def test_dotted_names_only_on_request():
    assert parse_python_calls("math.lcm(a=1)", dotted=True)[0].name == "math.lcm"
    with pytest.raises(CallSyntaxError, match="plain name"):
        parse_python_calls("math.lcm(a=1)")
    with pytest.raises(CallSyntaxError):
        parse_python_calls("f().__class__(a=1)", dotted=True)


def test_invalid_escapes_raise_no_warning():
    assert parse_python_calls(r"f(x='\d+')")[0].keyword == {"x": r"\d+"}


def test_size_and_depth_are_bounded():
    with pytest.raises(CallSyntaxError, match="characters"):
        parse_python_calls("f(x='" + "a" * 100_001 + "')")
    with pytest.raises(CallSyntaxError, match="nested"):
        parse_python_calls("f(x=" + "[" * 60 + "]" * 60 + ")")
    with pytest.raises(CallSyntaxError, match="nested"):
        parse_python_calls("f(x=" * 40 + "1" + ")" * 40)


@pytest.mark.slow
def test_hostile_depth_does_not_crash_the_interpreter():
    code = """
from rods.infra.pycall import CallSyntaxError, parse_python_calls
for text in ["-" * 19990, "f(x=" + "-" * 19000 + "1)", "a" + ".b" * 9900, "f(" * 900 + ")" * 900,
             "f(x=1" + "+1" * 9900 + ")", "f(x=" + "lambda:" * 2500 + "1)"]:
    try:
        parse_python_calls(text)
    except CallSyntaxError:
        print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused"] * 6
