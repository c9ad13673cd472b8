"""`make sample`: the project in examples/orders, as somebody else would have it.

pyk is built as a wheel and installed, with the client and pytest, into a new environment in a new
directory; the tests run there, once in one process and once under pytest-xdist.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NEEDED = ("confluent-kafka", "aiokafka", "pytest", "pytest-xdist", "pytest-asyncio")
LOOP_SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")
"""Without it pytest-asyncio warns, and warnings are errors here."""
ON_ASYNCIO = """
import pytest
from aiokafka import AIOKafkaProducer

@pytest.mark.asyncio
async def test_on_asyncio(pyk_broker, pyk_topic):
    async with AIOKafkaProducer(bootstrap_servers=pyk_broker.bootstrap_servers) as producer:
        await producer.send_and_wait(pyk_topic, b"v")
    assert len(pyk_broker.records(pyk_topic)) == 1
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="pyk-sample-") as name:
        home = Path(name)
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", home, HERE.parent)
        (wheel,) = home.glob("*.whl")
        run(sys.executable, "-m", "venv", home / "venv")
        python = home / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", wheel, *NEEDED)
        shutil.copytree(HERE / "orders", home / "orders")
        (home / "orders" / "test_asyncio.py").write_text(ON_ASYNCIO)
        test = (python, "-m", "pytest", "-q", "-W", "error", *LOOP_SCOPE)
        run(*test, cwd=home / "orders")
        run(*test, "-n", "2", cwd=home / "orders")


def run(*command: object, cwd: Path | None = None) -> None:
    subprocess.run([str(part) for part in command], cwd=cwd, check=True)


if __name__ == "__main__":
    main()
