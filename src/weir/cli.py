"""The command line: the same verbs as the API, over a folder.

weir demo                                     see 100,000 standing queries answered over a live stream
weir stream   FOLDER NAME 'a int, ts timestamp' --time ts --keep '1 hour'
weir register FOLDER 'SELECT …' [--params FILE] [--kept]
weir push     FOLDER STREAM FILE              csv, json lines, parquet or Arrow
weir advance  FOLDER TIME                     rows up to this time have come: windows move on without any
weir run      FOLDER [--trigger '1 second' | --available-now]
weir fetch    FOLDER QUERY [--at TIME]        and: changes, explain, drop, retry, queries, late, vacuum
weir replace  FOLDER QUERY [--sql SQL] [--params FILE]
weir keep     FOLDER STREAM '2 hours'         change how long a stream keeps its rows
weir drop-stream FOLDER STREAM                drop a stream that no query reads
weir table    FOLDER NAME 'a int, b string' --key a
weir upsert   FOLDER TABLE FILE               put rows into a table; and: delete, drop-table
weir check    FOLDER                          every document and file: which are damaged or missing
weir doctor   [FOLDER]                        what this machine gives a run, and what is wrong with it
weir calibrate FOLDER                         fit the costs by which join strategies are chosen to this machine
weir bench                                    the workloads, with peers beside Weir
weir bench exhibits [NAME …] [--full]         the papers' figures, measured again
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet
from pyarrow import json as arrow_json

from weir.errors import OpenError, RegisterError, WeirError
from weir.progress import Progress

if TYPE_CHECKING:
    from weir.api import Weir
    from weir.runtime.run import BatchFigures


def read_rows(path: str) -> pa.Table:
    """A table from a file, by its ending."""

    ending = Path(path).suffix.lower()
    try:
        if ending == ".csv":
            return csv.read_csv(path)
        if ending in (".json", ".jsonl", ".ndjson"):
            return arrow_json.read_json(path)
        if ending == ".parquet":
            return parquet.read_table(path)
        if ending in (".arrow", ".feather", ".ipc"):
            return pa.ipc.open_file(path).read_all()
    except (OSError, pa.ArrowInvalid) as wrong:
        raise OpenError(f"file '{path}' cannot be read: {wrong}") from wrong
    raise OpenError(f"file '{path}' ends in '{ending}', expected .csv, .json, .jsonl, .parquet or .arrow")


def write_rows(table: pa.Table, form: str) -> None:
    """A table to standard output."""

    if form == "csv":
        csv.write_csv(table, sys.stdout.buffer)
    elif form == "json":
        for row in table.to_pylist():
            print(json.dumps(row, default=str))
    else:
        with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as writer:
            writer.write_table(table)


def _open(args: argparse.Namespace, *, create: bool = False) -> Weir:
    from weir.api import open_weir

    return open_weir(args.folder, clock=getattr(args, "clock", None), create=create)


def _stream(args: argparse.Namespace) -> None:
    _open(args, create=True).stream(args.name, args.columns, time=args.time, keep=args.keep, future=args.future)
    print(f"stream '{args.name}' is defined")


def _table(args: argparse.Namespace) -> None:
    key = [name.strip() for name in args.key.split(",")]
    weir = _open(args, create=True)
    weir.table(args.name, args.columns, key=key, time=args.time, retroactive=args.retroactive)
    print(f"table '{args.name}' is defined")


def _register(args: argparse.Namespace) -> None:
    weir = _open(args)
    if args.params is None:
        print(weir.register(args.sql, name=args.name, tags=args.tag, owner=args.owner, kept=args.kept).id)
        return
    progress = Progress()
    params = read_rows(args.params)
    queries = weir.register_many(args.sql, params, names=args.name, tags=args.tag, owner=args.owner, kept=args.kept)
    progress.bar("registered", len(queries), len(queries))
    for first, last in _stretches(queries.ids):
        print(first, last)


def _stretches(ids: range | np.ndarray) -> list[tuple[int, int]]:
    """Ids as the first and last of each stretch of consecutive ones."""
    given = np.asarray(ids)
    starts = np.flatnonzero(np.diff(given, prepend=given[0] - 2) != 1)
    ends = np.append(starts[1:], len(given)) - 1
    return list(zip(given[starts].tolist(), given[ends].tolist(), strict=True))


def _id_or_name(given: str) -> int | str:
    """A query, as it is named on the command line: names are never numbers."""
    return int(given) if given.isascii() and given.isdigit() else given


def _push(args: argparse.Namespace) -> None:
    rows = read_rows(args.file)
    number = _open(args).push(args.stream, rows)
    print(f"push {number}: {rows.num_rows:,} rows")


def _advance(args: argparse.Namespace) -> None:
    number = _open(args).advance(args.time)
    print(f"push {number}: now is at least {args.time}")


def _upsert(args: argparse.Namespace) -> None:
    rows = read_rows(args.file)
    number = _open(args).upsert(args.table, rows)
    print(f"push {number}: {rows.num_rows:,} rows to put in")


def _delete(args: argparse.Namespace) -> None:
    keys = read_rows(args.file)
    number = _open(args).delete(args.table, keys)
    print(f"push {number}: {keys.num_rows:,} keys to take out")


def _run(args: argparse.Namespace) -> None:
    weir = _open(args)
    progress = Progress()
    run = weir.run(trigger=args.trigger, available_now=args.available_now, say=progress.say)
    try:
        seen = -1
        while not run.wait(1.0):
            last = run.progress().last_batch
            if last is not None and last.batch != seen:
                seen = last.batch
                progress.say(_line(last))
    except KeyboardInterrupt:
        run.stop()
    totals = run.progress()
    progress.say(f"{totals.batches} batches, {totals.events:,} events, {totals.pairs:,} matches")


def _line(f: BatchFigures) -> str:
    kept = f", {f.came:,} rows came to kept answers and {f.went:,} went" if f.came or f.went else ""
    failed = f", {f.quarantined:,} queries could not be matched (see `weir queries`)" if f.quarantined else ""
    failed += f", {f.given_up:,} answers could not be kept (see `weir queries`)" if f.given_up else ""
    shown = f"{f.events:,} events, {f.pairs:,} matches, {f.late:,} late, {f.batch_ms:.0f} ms"
    return f"batch {f.batch}: {shown}{kept}{failed}"


def _fetch(args: argparse.Namespace) -> None:
    write_rows(_open(args).query(_id_or_name(args.query)).fetch(at=args.at), args.format)


def _changes(args: argparse.Namespace) -> None:
    found = _open(args).query(_id_or_name(args.query)).changes(after=args.after)
    for sign, table in (("+", found.came), ("-", found.went)):
        for row in table.to_pylist():
            print(sign, json.dumps(row, default=str))
    print("token", found.token)


def _explain(args: argparse.Namespace) -> None:
    weir = _open(args)
    query = _id_or_name(args.query)
    is_known = isinstance(query, int) or weir.queries(name=query).num_rows > 0
    print(weir.query(query).explain() if is_known else weir.explain(args.query))


def _replace(args: argparse.Namespace) -> None:
    params = None if args.params is None else read_rows(args.params).to_pylist()
    if params is not None and len(params) != 1:
        raise RegisterError(f"file '{args.params}' has {len(params):,} rows of parameters, expected one")
    new = _open(args).replace(_id_or_name(args.query), args.sql, None if params is None else params[0])
    print(new.id)


def _drop(args: argparse.Namespace) -> None:
    count = _open(args).drop(args.ids or None, name=args.name, tag=args.tag, owner=args.owner)
    print(f"dropped {count}")


def _retry(args: argparse.Namespace) -> None:
    _open(args).retry(args.ids)
    print(f"tried again from the next batch on: {len(args.ids)}")


def _keep(args: argparse.Namespace) -> None:
    _open(args).change_keep(args.stream, args.keep)
    print(f"stream '{args.stream}' keeps {args.keep}")


def _drop_stream(args: argparse.Namespace) -> None:
    _open(args).drop_stream(args.stream)
    print(f"stream '{args.stream}' is dropped")


def _drop_table(args: argparse.Namespace) -> None:
    _open(args).drop_table(args.table)
    print(f"table '{args.table}' is dropped")


def _queries(args: argparse.Namespace) -> None:
    table = _open(args).queries(name=args.name, tag=args.tag, owner=args.owner, text=args.text)
    if args.format == "csv":  # which has no lists
        tags = pc.binary_join(table["tags"].cast(pa.list_(pa.string())), " ")
        table = table.set_column(table.column_names.index("tags"), "tags", tags)
    write_rows(table, args.format)


def _late(args: argparse.Namespace) -> None:
    write_rows(_open(args).late(args.stream), args.format)


def _vacuum(args: argparse.Namespace) -> None:
    print(_open(args).vacuum())


def _check(args: argparse.Namespace) -> int:
    from weir.store.check import check
    from weir.store.files import open_files

    progress = Progress()
    found = check(open_files(args.folder), progress.say)
    for path, what in sorted(found.wrong.items()):
        print(f"{path}: {what}")
    print(f"{found.documents:,} documents, {found.files:,} files of {found.size:,} bytes: {len(found.wrong):,} wrong")
    return int(bool(found.wrong))


def _calibrate(args: argparse.Namespace) -> None:
    from weir.runtime import calibration

    _open(args)  # only a weir can be calibrated
    print(calibration.main(args.folder, args.quick))


def _doctor(args: argparse.Namespace) -> int:
    from weir.runtime.machine import examine, report

    findings = examine(args.folder)
    print(report(findings))
    return int(any(finding.wrong for finding in findings))


def _demo(args: argparse.Namespace) -> None:
    from weir.demo import demo

    demo(queries=args.queries, seconds=args.seconds, folder=args.folder)


def _bench(args: argparse.Namespace) -> None:
    import subprocess

    if not Path("benchmarks").is_dir():
        raise OpenError("there is no folder 'benchmarks' here", hint="run `weir bench` in a checkout of the project")
    exhibits = args.rest[:1] == ["exhibits"]
    module, rest = ("benchmarks.exhibits.run", args.rest[1:]) if exhibits else ("benchmarks.run", args.rest)
    raise SystemExit(subprocess.call([sys.executable, "-m", module, *rest]))


def parser() -> argparse.ArgumentParser:
    """All commands and their arguments."""
    top = argparse.ArgumentParser(prog="weir", description="Standing SQL queries over data streams, on Spark.")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, what: str, does: object, *, folder: bool = True) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=what, description=what)
        made.set_defaults(does=does)
        if folder:
            made.add_argument("folder", help="the weir's folder or object-store address")
        return made

    made = verb(
        "demo", "100,000 standing queries over a generated market feed, for about a minute", _demo, folder=False
    )
    made.add_argument("--queries", type=int, default=100_000)
    made.add_argument("--seconds", type=float, default=45.0, help="how long the feed runs")
    made.add_argument("--folder", default=None, help="keep the weir here (a temporary folder is removed at the end)")

    made = verb("stream", "define a stream for pushed rows", _stream)
    made.add_argument("name")
    made.add_argument("columns", help="such as 'name string, price double, ts timestamp'")
    made.add_argument("--time", required=True, help="the time column")
    made.add_argument("--keep", default="1 hour", help="how far back windows may reach, or 'forever'")
    made.add_argument("--future", default="1 minute", help="rows further ahead of the clock go to `late`")
    made.add_argument("--clock", default=None, choices=("event", "arrival"))

    made = verb("table", "define a table beside the streams", _table)
    made.add_argument("name")
    made.add_argument("columns", help="such as 'symbol string, company string null'")
    made.add_argument("--key", required=True, help="the column that identifies a row, or several: a,b")
    made.add_argument("--time", default=None, help="the column that says since when a row holds")
    made.add_argument("--retroactive", action="store_true", help="changes count for rows that came before, too")
    made.add_argument("--clock", default=None, choices=("event", "arrival"))

    made = verb("register", "register a query, or one for each row of a parameter file", _register)
    made.add_argument("sql")
    made.add_argument("--params", default=None, help="csv, json lines, parquet or Arrow; columns are the :parameters")
    made.add_argument("--name", default=None, help="of the query; with --params the column that has the names")
    made.add_argument("--tag", action="append", default=[], help="may be given several times")
    made.add_argument("--owner", default=None)
    made.add_argument("--kept", action="store_true", help="have every batch bring the answers up to date")

    made = verb("replace", "register a query in the place of another one", _replace)
    made.add_argument("query", help="its id or name")
    made.add_argument("--sql", default=None, help="another text; without it other parameters")
    made.add_argument("--params", default=None, help="a file with one row of parameters")

    made = verb("push", "hand rows of a file to a stream", _push)
    made.add_argument("stream")
    made.add_argument("file")

    made = verb("advance", "say that rows up to a time have come, so that windows move on without any", _advance)
    made.add_argument("time", help="such as '2026-01-31 12:00:00'")

    made = verb("upsert", "put rows of a file into a table", _upsert)
    made.add_argument("table")
    made.add_argument("file")

    made = verb("delete", "take the keys in a file out of a table", _delete)
    made.add_argument("table")
    made.add_argument("file")

    made = verb("run", "run the job", _run)
    made.add_argument("--trigger", default="1 second")
    made.add_argument("--available-now", action="store_true", help="take what is there, then stop")

    made = verb("fetch", "print a query's answer", _fetch)
    made.add_argument("query", help="its id or name")
    made.add_argument("--at", default=None, help="an earlier time, such as '2026-01-31 12:00:00'")
    _format(made)

    made = verb("changes", "print what came and went since a token", _changes)
    made.add_argument("query", help="its id or name")
    made.add_argument("--after", default=None)

    made = verb("explain", "show how a query (by id, name or SQL text) is executed", _explain)
    made.add_argument("query")

    made = verb("drop", "drop queries", _drop)
    made.add_argument("ids", type=int, nargs="*")
    _labels(made)

    made = verb("retry", "have demoted queries matched again, and those that were given up kept again", _retry)
    made.add_argument("ids", type=int, nargs="+")

    made = verb("keep", "change how long a stream keeps its rows", _keep)
    made.add_argument("stream")
    made.add_argument("keep", help="how far back windows may reach, or 'forever'")

    made = verb("drop-stream", "drop a stream that no query reads", _drop_stream)
    made.add_argument("stream")

    made = verb("drop-table", "drop a table that no query reads", _drop_table)
    made.add_argument("table")

    made = verb("queries", "list the standing queries, or those that fit", _queries)
    _labels(made)
    made.add_argument("--text", default=None, help="a part of their text")
    _format(made)

    made = verb("late", "print the rows that were not taken, with the reason", _late)
    made.add_argument("stream", help="a stream, or a table that a streaming DataFrame changes")
    _format(made)

    verb("vacuum", "remove expired and orphaned files", _vacuum)

    verb("check", "look at every document and file, and say which are damaged or missing", _check)

    made = verb("doctor", "say what this machine gives a run, and what is wrong with it", _doctor, folder=False)
    made.add_argument("folder", nargs="?", default=".", help="where the weir is or will be")

    made = verb("calibrate", "fit the costs by which join strategies are chosen to this machine", _calibrate)
    made.add_argument("--quick", action="store_true", help="a few seconds instead of half a minute; coarser")

    made = verb("bench", "run the benchmarks of a checkout", _bench, folder=False)
    made.add_argument("rest", nargs=argparse.REMAINDER)
    return top


def _labels(made: argparse.ArgumentParser) -> None:
    for what in ("name", "tag", "owner"):
        made.add_argument(f"--{what}", default=None, help=f"those with this {what}")


def _format(made: argparse.ArgumentParser) -> None:
    made.add_argument("--format", choices=("json", "csv", "arrow"), default="json")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors are one line on standard error and exit code 1."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["bench"] and given[1:2] not in (["-h"], ["--help"]):
        args = argparse.Namespace(does=_bench, rest=given[1:])  # the benchmarks know their options, argparse would not
    else:
        args = parser().parse_args(given)
    try:
        return args.does(args) or 0
    except WeirError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
