"""One table of ratios for people, and the same figures as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

RESULTS = Path(__file__).with_name("results")
ROUNDS = 9


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    unit: str
    figures: Mapping[str, float | None]
    """By contestant. The first one is pyk; None where a contestant cannot do it."""
    goal: str = ""
    rounds: Sequence[Mapping[str, float]] = ()
    """If there were several, the figures of each: noise falls on all contestants of a round."""

    @property
    def ratios(self) -> dict[str, float]:
        """How many times pyk's figure each of the others needs: the median of the rounds."""
        if self.rounds:
            return {name: median(found) for name, found in self._ratios_of_rounds().items()}
        return _ratios(self.figures)

    @property
    def spreads(self) -> dict[str, tuple[float, float]]:
        """The lowest and the highest ratio of a round."""
        found = self._ratios_of_rounds() if len(self.rounds) > 1 else {}
        return {name: (min(ratios), max(ratios)) for name, ratios in found.items()}

    def _ratios_of_rounds(self) -> dict[str, list[float]]:
        by_name: dict[str, list[float]] = {}
        for figures in self.rounds:
            for name, ratio in _ratios(figures).items():
                by_name.setdefault(name, []).append(ratio)
        return by_name


def row_of_rounds(what: str, unit: str, rounds: Sequence[Mapping[str, float]], goal: str) -> Row:
    """The figures are the medians."""
    figures = {name: median(each[name] for each in rounds) for name in rounds[0]}
    return Row(what, unit, figures, goal, rounds)


def _ratios(figures: Mapping[str, float | None]) -> dict[str, float]:
    pyk, *others = figures.items()
    assert pyk[1] is not None
    return {name: figure / pyk[1] for name, figure in others if figure is not None}


def microseconds(
    contestants: Mapping[str, Callable[[], object] | None], seconds: float = 0.03
) -> dict[str, float | None]:
    """The best time of each, measured in turns so that noise falls on all of them alike."""
    calls = {name: _calls(run, seconds) for name, run in contestants.items() if run is not None}
    best: dict[str, float | None] = dict.fromkeys(contestants)
    for _ in range(ROUNDS):
        for name, count in calls.items():
            run = contestants[name]
            assert run is not None
            began = perf_counter()
            for _ in range(count):
                run()
            took = (perf_counter() - began) / count * 1e6
            best[name] = min(took, best[name] or took)
    return best


def _calls(run: Callable[[], object], seconds: float) -> int:
    """How many calls fill the time."""
    run()
    count = 1
    while True:
        began = perf_counter()
        for _ in range(count):
            run()
        took = perf_counter() - began
        if took > seconds / 4:
            return max(1, int(count * seconds / took))
        count *= 4


def print_table(title: str, rows: Sequence[Row]) -> None:
    names = list(rows[0].figures)
    width = max(len(row.what) for row in rows)
    print(f"\n{title}")
    print(f"{'':{width}}" + "".join(f"{name:>16}" for name in names) + "  ratio to pyk")
    for row in rows:
        shown = "".join(
            f"{'-' if figure is None else f'{figure:.2f} {row.unit}':>16}"
            for figure in row.figures.values()
        )
        ratios = ", ".join(_shown(row, name, ratio) for name, ratio in row.ratios.items())
        print(f"{row.what:{width}}{shown}  {ratios}" + (f"   [{row.goal}]" if row.goal else ""))


def _shown(row: Row, name: str, ratio: float) -> str:
    if name not in row.spreads:
        return f"{name} {ratio:.2f}"
    lowest, highest = row.spreads[name]
    return f"{name} {ratio:.2f} ({lowest:.2f} to {highest:.2f})"


def save(section: str, rows: Sequence[Row]) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{section}.json"
    found = [
        {
            "what": row.what,
            "unit": row.unit,
            "figures": dict(row.figures),
            "ratios": row.ratios,
            "rounds": [dict(each) for each in row.rounds],
            "goal": row.goal,
        }
        for row in rows
    ]
    path.write_text(json.dumps(found, indent=1) + "\n")
    return path
