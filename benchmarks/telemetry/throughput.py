"""What telemetry costs: `python -m benchmarks.telemetry.throughput [--rounds 5] [--shell ray]`.

W2 with 10,000 keys and a checkpoint each second, in turn

* `off`: no metrics are asked for, nothing is exported, no trace file, no log file;
* `on`: metrics each second, a page for Prometheus that is read each second, metrics and traces to a collector
  that takes them, a trace file, logs as JSON;
* `down`: the same with a collector that nobody listens for;
* `hanging`: the same with one that takes connections and never answers.

The figures are ratios of the medians to `off`, by the clock and by CPU time. The counting of a subtask itself
cannot be switched off: it is in all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import statistics
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .. import environments, launch, systems
from ..measurement import check, marks, metrics_of
from ..peers.measure import Orders
from ..plan import CHECKPOINT_INTERVAL_MS, K_SMALL, Case

MODES = ("off", "on", "down", "hanging")
GOAL = 0.97
LIMIT_S = 300.0


class _Collector(BaseHTTPRequestHandler):
    """Takes everything."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not worth a line."""


@contextlib.contextmanager
def collector(mode: str) -> Iterator[str]:
    """The address of a collector that takes everything, is down, or hangs."""
    if mode == "on":
        with ThreadingHTTPServer(("127.0.0.1", 0), _Collector) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()
    else:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            if mode == "hanging":
                # The kernel takes connections, and nobody ever reads from them.
                listener.listen(64)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def scraping(port: int) -> Iterator[None]:
    """Read the page for Prometheus each second, as soon as it is there."""
    is_over = threading.Event()

    def scrape() -> None:
        while not is_over.wait(1.0):
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page,
            ):
                page.read()

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def measure(mode: str, shell: str, records: int) -> dict[str, float]:
    """Rate and CPU time of one run, whose answer is checked."""
    folder = environments.cache_dir() / "telemetry" / mode
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("marks", "state", "logs"):
        (folder / name).mkdir(parents=True)
    case = Case("W2", "telemetry", mode, "tidegate", records, K_SMALL, shell=shell)
    port = systems.free_port()
    on = {
        "metrics.reporter.prom.port": str(port),
        "tidegate.trace.file": str(folder / "traces.json"),
        "tidegate.log.format": "JSON",
        "env.log.dir": str(folder / "logs"),
    }
    orders = Orders(
        workload="W2",
        records=records,
        keys=K_SMALL,
        marks_dir=str(folder / "marks"),
        state_dir=str(folder / "state"),
        shell=shell,
        interval_ms=CHECKPOINT_INTERVAL_MS,
        options={"metrics.fetcher.update-interval": "0 ms"} if mode == "off" else on,
    )
    variables = systems.environment("tidegate")
    with contextlib.ExitStack() as stack:
        if mode != "off":
            endpoint = stack.enter_context(collector(mode))
            stack.enter_context(scraping(port))
            variables |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_METRIC_EXPORT_INTERVAL": "1000"}
        outcome = launch.run(
            systems.command("tidegate", orders), variables, folder / "marks", folder / "log.txt", LIMIT_S
        )
    ends = marks(outcome, "end")
    check(case, orders, ends)
    return metrics_of(case, orders, outcome, ends)


def main() -> int:
    """Runs all modes in turn; the exit status is 1 if telemetry costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shell", choices=("local", "ray"), default="local")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--modes", default=",".join(MODES), help="default: all; off is always among them")
    options = parser.parse_args()
    modes = ["off", *(mode for mode in options.modes.split(",") if mode != "off")]
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in modes}
    for number in range(options.rounds):
        # Every other round the other way round, so that a machine that gets slower meets everybody.
        for mode in modes if number % 2 == 0 else reversed(modes):
            figures = measure(mode, options.shell, options.records)
            found[mode].append(figures)
            print(
                f"{number + 1} {mode:8} {figures['rate']:8.1f} k/s {figures['cpu_s']:6.3f} CPU s/M",
                flush=True,
            )
    return 0 if report(found) else 1


def report(found: dict[str, list[dict[str, float]]]) -> bool:
    """Prints a line per mode; whether all of them reach the goal by CPU time."""
    rates = {mode: statistics.median(one["rate"] for one in runs) for mode, runs in found.items()}
    costs = {mode: statistics.median(one["cpu_s"] for one in runs) for mode, runs in found.items()}
    print(f"\n{'':8}  {'median k/s':>10}  {'of off':>7}  {'CPU s/M':>8}  {'of off':>7}")
    for mode in found:
        rate, cost = rates[mode] / rates["off"], costs["off"] / costs[mode]
        print(f"{mode:8}  {rates[mode]:10.1f}  {rate:7.3f}  {costs[mode]:8.3f}  {cost:7.3f}")
    return all(costs["off"] / cost >= GOAL for cost in costs.values())


if __name__ == "__main__":
    sys.exit(main())
