"""The pages of the documentation, and the code on them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def page(name: str) -> str:
    """A file that people read, by its path from the root."""
    return (ROOT / name).read_text()


def sections(text: str) -> dict[str, str]:
    """What is below each heading of the second level, by that heading."""
    _, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return {heading: body for heading, _, body in (part.partition("\n") for part in parts)}


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return [body for name, body in all_blocks(text) if name == language]


def all_blocks(text: str) -> list[tuple[str, str]]:
    """Every fenced block, with its language before it."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
