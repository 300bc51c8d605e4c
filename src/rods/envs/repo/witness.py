"""Runner of tests inside a container; `swe.py` sends its text there.

Owns nothing outside: it reports which tests passed and which values they compared. The values that
were expected are not here (`claims.py` took them out of the tests). Standard input is JSON: `mark`
and `files`. Each line that it prints begins with the mark: `began`, then the report.

It is run by the image's own interpreter, which may be an old one, with pytest.
"""

import builtins
import json
import numbers
import os
import sys
from collections import UserDict, UserList
from collections.abc import Mapping, Set
from decimal import Decimal
from typing import Any

DEEPEST, LONGEST = 50, 1 << 20
EXACT: Any = (str, bytes, float, complex)
CLAIM = "_rods_claim"


class NotPlain(Exception):
    """A value of a class that only the code under test knows."""


def plain(value: object, depth: int = 0) -> str:
    """The value as Python writes it, by what it holds and not by its own `__eq__` or `__repr__`."""
    if depth > DEEPEST:
        raise NotPlain
    if value is None or value is True or value is False:
        return repr(value)
    for kind in EXACT:
        if isinstance(value, kind):
            return kind.__repr__(value)
    if isinstance(value, bytearray):
        return repr(bytes(value))
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, numbers.Integral):
        return int.__repr__(value) if isinstance(value, int) else repr(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    return _container(value, depth + 1)


def _container(value: object, depth: int) -> str:
    if isinstance(value, (dict, UserDict, Mapping)):
        pairs = (plain(key, depth) + ": " + plain(value[key], depth) for key in value)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, UserList, tuple)):
        inner = "".join(plain(one, depth) + ", " for one in value)
        return "(" + inner + ")" if isinstance(value, tuple) else "[" + inner + "]"
    if isinstance(value, Set):
        inner = [plain(one, depth) for one in value]
        return "{" + ", ".join(inner) + "}" if inner else "set()"
    raise NotPlain


class Witness:
    """A plugin of pytest: notes what was compared, by test, and how each test ended."""

    def __init__(self) -> None:
        self.test = ""
        self.claims: Any = []
        self.outcomes: Any = []

    def claim(self, number: int, value: object) -> bool:
        """Note what a test compares with the expected value of this number."""
        try:
            text = plain(value)
        except Exception:  # noqa: BLE001 (whatever the code under test raises: it is no plain value)
            text = ""
        self.claims.append([self.test, number, text if len(text) <= LONGEST else ""])
        return True

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self.test = nodeid

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One of its three phases ended."""
        outcome = "xfail" if hasattr(report, "wasxfail") else report.outcome
        self.outcomes.append([report.nodeid, report.when, outcome])


def main() -> None:
    """Run the tests, and print the report where no code under test prints."""
    asked = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    witness = Witness()
    setattr(builtins, CLAIM, witness.claim)
    import pytest  # pyright: ignore[reportMissingImports]

    more = []
    try:
        import xdist  # noqa: F401  # pyright: ignore

        more = ["-n0"]
    except ImportError:
        pass
    out.write(asked["mark"] + "began\n")
    out.flush()
    sys.path.append(os.getcwd())
    options = ["-q", "-p", "no:cacheprovider", *more, *asked["files"]]
    pytest.main(options, plugins=[witness])
    report = {"outcomes": witness.outcomes, "claims": witness.claims}
    out.write(asked["mark"] + json.dumps(report) + "\n")
    out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
