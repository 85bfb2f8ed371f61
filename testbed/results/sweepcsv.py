"""`sweep.csv`: tidy, one row a run; the swept keys, which run it was and what became of it, then its metrics.

A swept key that is called as a column of every sweep is (`seed`, `time_dilation`) has the column `sweep.KEY`.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from testbed.results.metrics import OPEN, lookup, of_job
from testbed.results.model import JobResult
from testbed.results.reading import RunRecord, plain
from testbed.results.rundir import write_whole

RUN_COLUMNS = ("repeat", "seed", "run", "status", "verdict")
METRICS = (
    *("ranks", "size_bytes", "time_dilation", "cct_ns.n", "cct_ns.min", "cct_ns.mean", "cct_ns.stdev", "cct_ns.p50"),
    *("cct_ns.p95", "cct_ns.p99", "cct_ns.max", "exposed_ns.p50", "bound_ns", "algbw_bps", "busbw_bps.ring"),
    *("busbw_bps.in_network", "wrong", "nmse", "missing_bytes", "packets.sent", "packets.received"),
    *("packets.duplicated", "packets.dropped_queue", "packets.dropped_loss", "packets.dropped_corrupt"),
    *("packets.in_flight", "packets.retransmitted", "packets.ecn_marked", "timeouts", "bytes_on_wire"),
    *("payload_bytes", "wall_s", "missing_share", "training.accuracy", "training.loss", "pfc.frames", "pfc.paused_ns"),
)


def write_sweep_csv(path: Path, records: Sequence[RunRecord]) -> None:
    """Write `path` whole; runs are named relative to its folder. Call it after every run: it replaces the last one.

    Rows come in the order of the directories' names, in whatever order the runs were made. What endpoints counted by
    their own names has the last columns, of all names that any run has.
    """
    swept = list(dict.fromkeys(key for record in records for key in record.result.point))
    jobs = dict.fromkeys(name for record in records for name in record.result.jobs)
    of_jobs = [m for m in METRICS if m.partition(".")[0] in JobResult.model_fields]
    metrics = [*METRICS, *(f"jobs.{name}.{metric}" for name in jobs for metric in of_jobs), *_counters(records)]

    def write(file: IO[str]) -> None:
        writer = csv.writer(file, lineterminator="\n")
        named = [f"sweep.{key}" if key in (*RUN_COLUMNS, *METRICS) else key for key in swept]
        writer.writerow([*named, *RUN_COLUMNS, *metrics])
        for record in sorted(records, key=lambda record: record.path):
            writer.writerow(_row(record, swept, metrics, path.parent))

    write_whole(path, write)


def _counters(records: Sequence[RunRecord]) -> list[str]:
    """The metrics of all counters that any of them has."""
    names = {
        f"{f'jobs.{job}.' if job else ''}{OPEN}.{name}"
        for record in records
        for job, result in record.result.by_job().items()
        for name in result.counters
    }
    return sorted(names)


def _row(record: RunRecord, swept: Sequence[str], metrics: Sequence[str], folder: Path) -> list[Any]:
    result = record.result
    run = record.path.relative_to(folder) if record.path.is_relative_to(folder) else record.path
    return [
        *(plain(result.point[key]) if key in result.point else "" for key in swept),
        *(result.repeat, result.seed, run, result.status, result.verdict.value),
        *("" if (value := _value(record, metric)) is None else value for metric in metrics),
    ]


def _value(record: RunRecord, metric: str) -> Any:
    """None also of a job that this point has not."""
    records, metric = of_job([record], metric)
    return lookup(records[0].data, metric) if records else None
