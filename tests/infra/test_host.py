"""Memory that a process holds."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time

import pytest

from rods.infra.host import masked

HELD = """
import os
from pathlib import Path
from rods.infra.host import give_back

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

blocks = [b"x" * (64 << 10) for _ in range(3_000)]  # in the heap, which shrinks from its end alone
for block in range(len(blocks) - 1):
    blocks[block] = b""
before = held()
give_back()
kept = held()
give_back(least=0)
print(before, kept, held())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="not glibc")
def test_what_the_c_library_keeps_of_freed_memory_is_given_back() -> None:
    environment = {**os.environ, "PYTHONMALLOC": "malloc"}
    done = subprocess.run(
        [sys.executable, "-c", HELD], capture_output=True, text=True, check=True, env=environment
    )
    before, kept, after = map(int, done.stdout.split())
    assert before > 180 and after < before - 150
    assert kept > before - 20, "so little stays, because an update takes it again"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("serve --token s3 -v", "serve --token *** -v"),
        ('serve --db-password="s3 s3" -v', "serve --db-password=*** -v"),
        ("API_KEY='s3 s3' serve", "API_KEY=*** serve"),
        ("http://s3:s3@host/?api_key=s3", "http://***@host/?api_key=***"),
        ("-H 'Authorization: Basic s3' -v", "-H 'Authorization: ***' -v"),
        ('--header "X-Api-Key: s3 s3" -v', '--header "X-Api-Key: ***" -v'),
        ('{"api_key": "s3 s3", "n": 1}', '{"api_key": ***, "n": 1}'),
        ("Bearer s3", "Bearer ***"),
        ("--rollout.step_tokens 64", "--rollout.step_tokens 64"),
        ("--key_env NAME", "--key_env NAME"),
        ("Name the primary key: a number.", "Name the primary key: a number."),
    ],
)
def test_what_is_secret_in_a_text_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_a_setting_with_the_name_of_a_secret_is_masked() -> None:
    assert (masked("s3", "vllm.api-key"), masked("64", "step_tokens")) == ("***", "64")
    assert masked("", "password") == "", "that there is none may be seen"


@pytest.mark.slow
def test_masking_takes_time_in_proportion_to_the_text() -> None:
    for piece in ("a", "a-", "key", "key=", "--", "key:", '"', " "):
        begin = time.process_time()
        masked(piece * (100_000 // len(piece)))
        assert time.process_time() - begin < 2, piece  # quadratic: minutes
