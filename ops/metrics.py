# SPDX-License-Identifier: Apache-2.0
"""Serves what a service counts to Prometheus, on loopback unless told otherwise; counts nothing.

Values are read when they are asked for, so a service that nobody scrapes does no work for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from ops.address import MAX_PORT

LOOPBACK: Final = "127.0.0.1"
OPTION_HELP: Final = (
    f"serve Prometheus metrics at http://[HOST:]PORT/metrics; HOST is {LOOPBACK} unless given, "
    "port 0 takes a free one"
)


class MetricsError(ValueError):
    """Metrics cannot be served as asked."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One name with its values by labels; a counter's name ends in `_total`."""

    name: str
    text: str  # what it is, with its unit
    labels: tuple[str, ...]
    values: Mapping[Any, float]  # by tuples of label values (a mapping's keys are invariant)

    @classmethod
    def single(cls, name: str, text: str, value: float) -> Metric:
        """A metric without labels."""
        return cls(name, text, (), {(): value})


Collect = Callable[[], Iterable[Metric]]


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of [HOST:]PORT; raises MetricsError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > MAX_PORT:
        raise MetricsError(f"metrics address {text!r} is not [HOST:]PORT, ports 0..{MAX_PORT}")
    return host or LOOPBACK, int(port)


@contextmanager
def served(address: str, collect: Collect) -> Iterator[str]:
    """Serve at [HOST:]PORT while the block runs; yields HOST:PORT; raises MetricsError."""
    host, port = parse_address(address)
    try:
        from prometheus_client import CollectorRegistry, start_http_server
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
        from prometheus_client.registry import Collector
    except ImportError as error:
        raise MetricsError(f"{error}; pip install 'incmoe[metrics]'") from None

    class Scraped(Collector):
        def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
            for one in collect():
                kind = CounterMetricFamily if one.name.endswith("_total") else GaugeMetricFamily
                family = kind(one.name, one.text, labels=one.labels)
                for labels, value in one.values.items():
                    family.add_metric(labels, value)
                yield family

    registry = CollectorRegistry()
    registry.register(Scraped())
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise MetricsError(f"cannot serve metrics at {host}:{port}: {error.strerror}") from None
    try:
        yield f"{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
