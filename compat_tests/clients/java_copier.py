"""A topic that Java's client copies exactly once, though everybody is killed.

python -m compat_tests.clients.java_copier --records 1000000 --kills 60
"""

from __future__ import annotations

from pathlib import Path

from compat_tests.kafka import jars
from tests.clients.copying.run import main

SOURCE = Path(__file__).with_name("JavaCopier.java")


def java_copier(address: str) -> list[str]:
    classes = jars.compiled(SOURCE)
    return jars.java_command("JavaCopier", address, classes=classes)


if __name__ == "__main__":
    main(java_copier)
