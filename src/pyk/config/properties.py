r"""Java's .properties: what `java.util.Properties.load` makes of a text, without Java.

    # a comment, and ! is one too
    key = value        also key:value, and key value
    long.one = begins here \
               and goes on here
    escaped\ key = tab \t, unicode \u20ac, and \\ itself

Of a key that comes twice the last value counts. Kafka reads such files as ISO 8859-1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pyk.errors import ErrorCode, KafkaError

_BLANKS: Final = " \t\f"
_LINE_END: Final = r"\r\n|\r|\n"
_ENTRY: Final = r"(?as)((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)"
_ESCAPE: Final = r"(?s)\\(u[0-9a-fA-F]{4}|.)"
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Raises `KafkaError` for an escape that is not one."""
    found = {}
    for line in _logical_lines(text):
        entry = re.fullmatch(_ENTRY, line)
        assert entry is not None
        found[_unescaped(entry[1])] = _unescaped(entry[2])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    logical = ""
    for natural in re.split(_LINE_END, text):
        line = natural.lstrip(_BLANKS)
        if not logical and (not line or line[0] in "#!"):
            continue
        logical += line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            logical = logical[:-1]
        else:
            yield logical
            logical = ""
    if logical:
        yield logical


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain = re.sub(_ESCAPE, _meant, text)
    # Java's characters are halves of those beyond the first 65,536. What it puts together is one.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _meant(escape: re.Match[str]) -> str:
    escaped = escape[1]
    if escaped == "u":
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, r"In a properties file \u needs four hexadecimal digits."
        )
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _LETTERS.get(escaped, escaped)
