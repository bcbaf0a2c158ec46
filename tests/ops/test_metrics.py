# SPDX-License-Identifier: Apache-2.0
"""Metrics as a scraper sees them, and where they are served."""

from __future__ import annotations

import socket
import urllib.request

import pytest

from ops.metrics import Metric, MetricsError, parse_address, served


def scrape(where: str) -> list[str]:
    """The lines that are no comments."""
    with urllib.request.urlopen(f"http://{where}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_values_are_those_of_the_moment_of_the_scrape() -> None:
    num = {"x": 1}

    def collect() -> list[Metric]:
        return [
            Metric("one_events_total", "events", ("kind",), {(k,): n for k, n in num.items()}),
            Metric("one_level", "a level", (), {(): 0.5}),
        ]

    with served("0", collect) as where:
        assert where.startswith("127.0.0.1:")
        assert scrape(where) == ['one_events_total{kind="x"} 1.0', "one_level 0.5"]
        num["x"], num["y"] = 2, 7
        assert scrape(where)[:2] == [
            'one_events_total{kind="x"} 2.0',
            'one_events_total{kind="y"} 7.0',
        ]
    with socket.socket() as probe:
        host, _, port = where.partition(":")
        assert probe.connect_ex((host, int(port))) != 0


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "127.0.0.1:65536", "-1"])
def test_an_address_that_is_none_is_named(text: str) -> None:
    with pytest.raises(MetricsError, match=f"{text!r} is not"):
        parse_address(text)


def test_only_what_is_named_leaves_loopback() -> None:
    assert parse_address("9601") == ("127.0.0.1", 9601)
    assert parse_address("0.0.0.0:9601") == ("0.0.0.0", 9601)


def test_a_port_in_use_is_named() -> None:
    with served("0", list) as where, pytest.raises(MetricsError, match=where), served(where, list):
        pass
