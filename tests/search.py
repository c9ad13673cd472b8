"""The tests of Hypothesis with one new seed after another: `make search`.

`make test` runs the same examples each time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from random import SystemRandom

PYTEST = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis", "--hypothesis-profile=search"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, help="only this one")
    arguments, others = parser.parse_known_args()
    deadline = time.monotonic() + arguments.minutes * 60
    rounds = 0
    while not rounds or (time.monotonic() < deadline and arguments.seed is None):
        seed = SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
        rounds += 1
        failed = subprocess.run([*PYTEST, f"--hypothesis-seed={seed}", *others], check=False)
        if failed.returncode:
            sys.exit(f'failed in round {rounds}; again with: make search ARGS="--seed {seed}"')
    print(f"{rounds} seeds, nothing found")


if __name__ == "__main__":
    main()
