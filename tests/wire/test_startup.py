"""What it costs to load the wire protocol, beside loading trio in the same minute."""

from __future__ import annotations

import subprocess
import sys

WIRE = """
import pyk.wire.codec
from pyk.wire.request import read_header
from pyk.wire.codec import decode
from pyk.wire.messages.api_versions import ApiVersionsRequest
frame = bytes.fromhex("00120003000000070002") + b"me" + bytes.fromhex("00 0470796b 0231 00")
header, position = read_header(frame)
request = decode(ApiVersionsRequest, 3, frame[position:])
assert (header.client_id, request.client_software_name) == ("me", "pyk")
"""
TIMED = """
import time
began = time.process_time()
{program}
print(time.process_time() - began)
"""


def seconds(program: str, repeats: int = 7) -> float:
    """The CPU time of a program in a fresh interpreter, at best."""
    command = [sys.executable, "-c", TIMED.format(program=program)]
    return min(
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats)
    )


def test_loading_wire_and_decoding_a_message_costs_less_than_importing_trio() -> None:
    wire, trio = seconds(WIRE), seconds("import trio")
    print(f"wire {wire * 1000:.0f} ms, trio {trio * 1000:.0f} ms")
    assert wire < trio


def test_no_message_is_loaded_before_it_is_used() -> None:
    program = "import sys\nimport pyk.wire.request\nprint(*sys.modules)"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "pyk.wire.messages.fetch" not in loaded
    assert not {"trio", "crc32c", "lz4", "snappy", "cramjam", "zstandard"} & set(loaded)
