r"""Mathematics that is written in Unicode, as LaTeX.

Owns which characters stand for which commands. Never changes what is ASCII, except `sqrt(2)`.

    as_latex("πr²")                     # r"\pi r^{2}"
    as_latex("1½ · √(x+1)")             # r"1\frac{1}{2} \cdot  \sqrt{x+1}"
    as_latex("１３")                     # "13"
"""  # noqa: RUF002

from __future__ import annotations

import re
import unicodedata

_COMMANDS = (
    "\u00d7times \u00b7cdot \u22c5cdot \u2219cdot \u2022cdot \u2217cdot \u2264le \u2266le \u2a7dle "
    "\u2265ge \u2267ge \u2a7ege \u2260ne \u2248approx \u2261equiv \u00b1pm \u2213mp \u221einfty "
    "\u2208in \u2209notin \u222acup \u2229cap \u2216setminus \u2205emptyset \u2282subset "
    "\u2286subseteq \u2192to \u21d2Rightarrow \u2211sum \u220fprod \u222bint \u2202partial "
    "\u230alfloor \u230brfloor \u2308lceil \u2309rceil \u27e8langle \u27e9rangle \u2026ldots "
    "\u2220angle \u25b3triangle \u2206Delta \u2218circ \u2227wedge \u2228vee"
)
"""Signs, each before the name of its command."""
_GREEK = "\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b7\u03b8\u03b9\u03ba\u03bb\u03bc\u03bd\u03be" + (
    "\u03c0\u03c1\u03c3\u03c4\u03c5\u03c6\u03c7\u03c8\u03c9"
    "\u0393\u0394\u0398\u039b\u039e\u03a0\u03a3\u03a6\u03a8\u03a9"
)


def _greek(letter: str) -> str:
    name = unicodedata.name(letter).split()[-1].replace("LAMDA", "LAMBDA")
    return f"\\{name.lower() if letter.islower() else name.capitalize()} "


_SIGNS = str.maketrans(
    {
        **{pair[0]: f"\\{pair[1:]} " for pair in _COMMANDS.split()},
        **{letter: _greek(letter) for letter in _GREEK},
        **{sign: f"\\mathbb{{{unicodedata.normalize('NFKC', sign)}}}" for sign in
           "\u211d\u2124\u211a\u2115\u2102"},
        **dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\ufe63", "-"),
        **dict.fromkeys("\u00f7\u2215\u2044", "/"),
        **dict.fromkeys("\u00b0\u00ba\u02da", "^\\circ "),
        "\u2103": "^\\circ C", "\u2109": "^\\circ F", "\u2236": ":", "\u2032": "'",
        "\u3001": ",", "\u3002": ".",
    }
)  # fmt: skip
_WIDE = re.compile("[\uff01-\uff5e\uffe0-\uffe6\U0001d400-\U0001d7ff]+")
"""Letters, digits and signs in another width or face."""
_RAISED = re.compile("[\u00b2\u00b3\u00b9\u2070\u2071\u2074-\u207f]+")
_LOWERED = re.compile("[\u2080-\u208e\u2090-\u209c]+")
_FRACTION = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")
_ROOT = re.compile(
    r"(\u221a|\u221b|\u221c|\\sqrt(?=\s*\()|(?<![A-Za-z\\])sqrt(?=\s*\())\s*"
    r"(?:\(((?:[^()]|\([^()]{0,99}\)){1,200})\)|(\d+(?:\.\d+)?|\\frac\{\d+\}\{\d+\}|\\?[A-Za-z]+)?)"
)
_ROOTS = {"\u221b": "\\sqrt[3]", "\u221c": "\\sqrt[4]"}


def as_latex(text: str) -> str:
    """A text with the LaTeX of its mathematical characters; other ones stay."""
    if text.isascii():
        return _ROOT.sub(_root, text) if "sqrt" in text else text
    text = _WIDE.sub(_plain, text)
    text = _RAISED.sub(lambda found: f"^{{{_plain(found)}}}", text)
    text = _LOWERED.sub(lambda found: f"_{{{_plain(found)}}}", text)
    text = _FRACTION.sub(lambda found: "\\frac{{{}}}{{{}}}".format(*_plain(found).split("/")), text)
    return _ROOT.sub(_root, text.translate(_SIGNS))


def _plain(found: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", found[0]).translate({0x2212: "-", 0x2044: "/"})


def _root(found: re.Match[str]) -> str:
    """A root of brackets, a number, a fraction or one letter."""
    sign, under = _ROOTS.get(found[1], "\\sqrt"), found[2] or found[3] or ""
    if not under:
        return f"{sign} "
    rest = "" if found[2] or not under.isalpha() else under[1:]
    return f"{sign}{{{under.removesuffix(rest)}}}{rest}"
