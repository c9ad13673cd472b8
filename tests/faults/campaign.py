"""Each file operation of a broker under load fails once, wherever it is asked for: `make faults`.

    record a run without a fault -> which operations, from where -> a run for each and each fault

A run is named by its seed and what fails in it, and `--only` repeats it. `--flips` damages files at
rest instead (see `flips`).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from random import Random
from typing import Final

from tests.faults.failing_disk import POSSIBLE
from tests.faults.flips import Flip, flip
from tests.faults.known import known
from tests.faults.life import Outcome, Wanted, run

MODULE: Final = "tests.faults.campaign"
SHOWN_MAX: Final = 2


def planned(seed: int, count: int | None = None) -> list[Wanted]:
    """What is to fail in which run: each site that a load reaches, with each fault that it may
    have, the first time or any other. So many of them by chance, or all."""
    rng = Random(seed)
    recorded = run(seed, None)
    assert not recorded.violations, recorded.violations
    plan = [
        Wanted(site.code, rng.choice((1, rng.randint(1, reached))), fault)
        for site, reached in recorded.counts.items()
        for fault in POSSIBLE.get(site.kind, ())
    ]
    rng.shuffle(plan)
    return plan if count is None else plan[:count]


def is_deterministic() -> bool:
    return os.environ.get("PYTHONHASHSEED") == "0"


def _all_outcomes(seed: int, plan: Sequence[Wanted], processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from map(partial(run, seed), plan)
        return
    with get_context("fork").Pool(processes, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(partial(run, seed), plan, chunksize=4)


def _all_flips(seed: int, count: int, processes: int) -> Iterator[Flip]:
    seeds = range(seed, seed + count)
    if processes == 1:
        yield from map(flip, seeds)
        return
    with get_context("fork").Pool(processes, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(flip, seeds, chunksize=4)


class Complaints:
    """What went wrong, each kind of it once with the first runs that show it."""

    def __init__(self) -> None:
        self.new = 0
        """How many runs went wrong in a way that is not known."""
        self.known: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()

    def add(self, run: str, where: str, violations: list[str]) -> None:
        new = [each for each in violations if known(each) is None]
        if not new:
            self.known[known(violations[0]) or ""] += 1
            return
        self.new += 1
        violation = new[0]
        lines = violation.splitlines()
        frames = [line for line in lines if "/src/pyk/" in line]
        kind = re.sub(r"\d+|'[^']*'", "", "".join([*lines[:1], *frames[-1:]]))
        self._kinds[kind] += 1
        if self._kinds[kind] > SHOWN_MAX:
            return
        print(f"\n{run}\n  {where}")
        print(
            "   ", "\n    ".join(line[:200] for line in [*lines[:1], *lines[1:][-14:]]), flush=True
        )

    def print_counts(self) -> None:
        for kind, count in self._kinds.most_common():
            print(f"{count:6,} {kind[:200]}")
        for name, count in self.known.most_common():
            print(f"{count:6,} known: {name}")


def campaign(seed: int, plan: Sequence[Wanted], processes: int, *, shows_silent: bool) -> int:
    """How many runs went wrong."""
    began = time.perf_counter()
    reached = 0
    ended, silent, complaints = Counter[str](), Counter[str](), Complaints()
    for outcome in _all_outcomes(seed, plan, processes):
        reached += outcome.site is not None
        ended.update(each.partition(":")[0] for each in outcome.ended)
        if outcome.site is not None and outcome.is_silent:
            silent[str(outcome.site)] += 1
        if outcome.violations:
            spec = f"--seed {seed} --only {outcome.wanted}"
            complaints.add(spec, str(outcome.site), outcome.violations)
    took = time.perf_counter() - began
    complaints.print_counts()
    print(
        f"\n{len(plan):,} runs of load {seed}, {reached:,} with their fault:"
        f" {complaints.new} went wrong;"
        f" brokers ended by {dict(ended) or 'nothing'}; no line named what was hit in"
        f" {sum(silent.values())} ({len(plan) / took:,.1f} a second)"
    )
    if shows_silent:
        for site, count in sorted(silent.items()):
            print(f"  {count} {site}")
    return complaints.new


def flips(seed: int, count: int, processes: int) -> int:
    """How many damaged directories were served wrongly."""
    began = time.perf_counter()
    found, complaints = Counter[str](), Complaints()
    for outcome in _all_flips(seed, count, processes):
        found[outcome.result] += 1
        if outcome.violations:
            complaints.add(f"--flips --only {outcome.seed}", outcome.what, outcome.violations)
    took = time.perf_counter() - began
    complaints.print_counts()
    print(
        f"\n{count:,} bits flipped from seed {seed}: {complaints.new} went wrong; {dict(found)}"
        f" ({count / took:,.1f} a second)"
    )
    return complaints.new


def main() -> None:
    parser = argparse.ArgumentParser(description="Let each file operation of a broker fail once.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="so many runs, by chance; or else all")
    parser.add_argument("--only", help="repeat one run")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--silent", action="store_true", help="say where nothing was logged")
    parser.add_argument("--flips", action="store_true", help="flip bits of files at rest")
    options = parser.parse_args()
    if not is_deterministic():
        # Sets are walked in another order in each process, unless strings have the same hashes.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", MODULE, *sys.argv[1:]])
    if options.flips:
        seed, count = options.seed, options.count or 3_000
        if options.only:
            seed, count = int(options.only), 1
        sys.exit(bool(flips(seed, count, 1 if options.only else options.processes)))
    if options.only:
        plan = [Wanted.parse(options.only)]
        sys.exit(bool(campaign(options.seed, plan, 1, shows_silent=True)))
    plan = planned(options.seed, options.count)
    wrong = campaign(options.seed, plan, options.processes, shows_silent=options.silent)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
