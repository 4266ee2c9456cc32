"""Metrics of a function, and the page on which Prometheus finds them.

python metrics.py
"""

from __future__ import annotations

import time
import urllib.request

from tidegate.common import Configuration, WatermarkStrategy
from tidegate.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource


class Till(MapFunction):
    """Sells things at a price between 1 and 9."""

    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group().add_group("shop", "Berlin")
        self.sold = group.counter("sold")
        self.sales = group.meter("sales")
        self.prices = group.distribution("prices")
        self.last = 0
        group.gauge("last_price", lambda: self.last)

    def map(self, value: int) -> int:
        self.last = 1 + value % 9
        self.sold.inc()
        self.sales.mark_event()
        self.prices.update(self.last)
        return self.last


def main() -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    # Any port that is free; a job that runs for long would have 9249, or a range such as 9250-9260.
    configuration.set_string("metrics.reporter.prom.port", "0")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    numbers = env.from_source(NumberSequenceSource(0, 10**12), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(Till()).name("till").filter(lambda price: price < 1).print()
    client = env.execute_async("shop")
    # The first metrics are there within a second or two.
    while "shop_prices_max" not in (page := scrape(client.report().metrics_url)):
        time.sleep(0.1)
    client.cancel().result()
    for line in page.splitlines():
        if "shop_" in line and not line.startswith("#"):
            name, _, rest = line.partition("{")
            labels = rest.partition("}")[0].split(",")
            print(name, *(label for label in labels if label.startswith(("operator_name", "shop"))))


def scrape(url: str) -> str:
    """The page, empty as long as the job has none."""
    if not url:
        return ""
    with urllib.request.urlopen(url) as answer:
        return str(answer.read(), "utf-8")


if __name__ == "__main__":
    main()
