"""`make bench`: run the sections, print their tables, leave the figures in bench/results/."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from bench import (
    codec,
    compaction,
    fixture,
    groups,
    log,
    metrics,
    pacer,
    queues,
    records,
    recovery,
    server,
    spark,
    spark_source,
    transactions,
)
from bench.table import Row, print_table, save

SECTIONS: dict[str, tuple[str, Callable[[], Sequence[Row]]]] = {
    "codec": (codec.TITLE, codec.rows),
    "records": (records.TITLE, records.rows),
    "log": (log.TITLE, log.rows),
    "compaction": (compaction.TITLE, compaction.rows),
    "recovery": (recovery.TITLE, recovery.rows),
    "server": (server.TITLE, server.rows),
    "metrics": (metrics.TITLE, metrics.rows),
    "pacer": (pacer.TITLE, pacer.rows),
    "groups": (groups.TITLE, groups.rows),
    "spark_source": (spark_source.TITLE, spark_source.rows),
    "transactions": (transactions.TITLE, transactions.rows),
    "queues": (queues.TITLE, queues.rows),
    "fixture": (fixture.TITLE, fixture.rows),
    "spark": (spark.TITLE, spark.rows),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], metavar="SECTION")
    wanted = parser.parse_args().sections or SECTIONS
    for section in wanted:
        title, measure = SECTIONS[section]
        rows = measure()
        print_table(title, rows)
        save(section, rows)


if __name__ == "__main__":
    main()
