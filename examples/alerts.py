"""Alerts that fire and clear, sent to a webhook: kept queries, of which every batch says what came and went.

python examples/alerts.py

An alert fires when its answer gets a row and clears when the row goes: because trades came, or because only time has
passed. Delivery is at least once, as a batch that was interrupted is told again; the number of the batch and the id of
the query say what is the same message, so the webhook takes each of them once.
"""

from __future__ import annotations

import datetime
import json
import tempfile
import threading
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pyspark.sql import DataFrame

import weir
from weir.runtime.session import local_session

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
FRUITS = [f"fruit {k:02d}" for k in range(40)]
BODY_BYTES_MAX = 1_000_000


def at(second: int) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=second)


class Webhook(ThreadingHTTPServer):
    """Somebody else's server: takes each message once, whatever is sent again."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.seen: set[str] = set()  # keys of messages; a real one would keep them with what it does about them
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()

    def take(self, key: str, message: dict[str, object]) -> None:
        with self.lock:
            if key in self.seen:
                self.counts["repeated"] += 1
                return
            self.seen.add(key)
            # A row that changes is one that went and one that came: the alert still holds.
            what = "changed" if message["came"] and message["went"] else "fired" if message["came"] else "cleared"
            self.counts[what] += 1
            print(f"batch {message['batch']}: alert {message['query']} {what}: {message['came'] or message['went']}")


class Receiver(BaseHTTPRequestHandler):
    """One request."""

    server: Webhook
    timeout = 10  # seconds that a sender may take

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if not 0 < length <= BODY_BYTES_MAX:
            self.send_error(413)
            return
        self.server.take(self.headers["Idempotency-Key"], json.loads(self.rfile.read(length)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of requests that went well."""


def post(address: str, message: dict[str, object]) -> None:
    """Send a message. An error stops the run, and the next one begins with telling the same batch again."""
    request = urllib.request.Request(
        address,
        json.dumps(message).encode(),
        {"Content-Type": "application/json", "Idempotency-Key": f"{message['batch']}-{message['query']}"},
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=10):
        pass


def main() -> None:
    webhook = Webhook()
    thread = threading.Thread(target=webhook.serve_forever, name="webhook")
    thread.start()
    try:
        with tempfile.TemporaryDirectory() as root:
            watch(Path(root) / "weir", webhook)
    finally:
        webhook.shutdown()
        webhook.server_close()
        thread.join()


def watch(folder: Path, webhook: Webhook) -> None:
    address = f"http://127.0.0.1:{webhook.server_port}/alerts"
    w = weir.open(folder, spark=local_session())
    w.stream("trade", "symbol string, price double, ts timestamp", time="ts", keep="1 hour")
    w.stream("weather", "area string, category int, ts timestamp", time="ts", keep="1 hour")
    alerts = w.register_many(
        "SELECT symbol, count(*) AS n FROM trade WHERE symbol = :symbol AND price < :limit "
        "GROUP BY symbol HAVING count(*) > :n BEGIN NOW - INTERVAL 30 SECONDS END NOW",
        [
            {"symbol": fruit, "limit": 10.0 + limit, "n": n}
            for fruit in FRUITS
            for limit in (0, 5)
            for n in (1, 2, 4, 8)
        ],
        kept=True,
    )
    last: list[dict[str, object]] = []

    def tell(changes: DataFrame, batch: int) -> None:
        """One message for each query of which rows came or went."""
        last.clear()
        rows = changes.orderBy("query").collect()
        for query in dict.fromkeys(row["query"] for row in rows):
            of = [row for row in rows if row["query"] == query]
            came = [json.loads(row["row"]) for row in of if row["came"]]
            went = [json.loads(row["row"]) for row in of if not row["came"]]
            last.append({"batch": batch, "query": query, "came": came, "went": went})
            post(address, last[-1])

    print(f"{len(alerts)} alerts stand")
    w.push("trade", [{"symbol": FRUITS[7], "price": 12.0, "ts": at(k)} for k in range(3)])
    w.push("trade", [{"symbol": FRUITS[9], "price": 14.0, "ts": at(10 + k)} for k in range(2)])
    w.run(available_now=True, alerts=tell)

    w.push("trade", [{"symbol": FRUITS[9], "price": 8.0, "ts": at(20)}])
    w.run(available_now=True, alerts=tell)
    for message in last:  # a run that is killed here does this: it tells the batch again
        post(address, message)

    # No trade comes any more. The weather moves the clock, and what is older than 30 seconds is over.
    w.push("weather", [{"area": "south", "category": 2, "ts": at(60)}])
    w.run(available_now=True, alerts=tell)
    said = webhook.counts
    print(f"the webhook: {said['fired']} fired, {said['changed']} changed, {said['cleared']} cleared; ", end="")
    print(f"{said['repeated']} came twice and counted once")


if __name__ == "__main__":
    main()
