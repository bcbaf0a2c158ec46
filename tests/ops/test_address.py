# SPDX-License-Identifier: Apache-2.0
"""Addresses that a server cannot listen at, named with their limit."""

from __future__ import annotations

import pytest

from ops.address import AddressError, check_listen_address


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:0",
        "localhost:65535",
        "[::1]:9559",
        "0.0.0.0:9559",
        "unix:/run/switch",
        "unix-abstract:switch",
    ],
)
def test_addresses_that_are_some_pass(address: str) -> None:
    check_listen_address(address)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:65536", "port '65536' is not a number in 0..65535"),
        ("[::1]:70000", "port '70000' is not a number in 0..65535"),
        ("127.0.0.1:-1", "port '-1' is not a number in 0..65535"),
        ("127.0.0.1:", "port '' is not a number in 0..65535"),
        ("127.0.0.1:http", "port 'http' is not a number in 0..65535"),
        ("127.0.0.1", "not HOST:PORT, [IPV6]:PORT or unix:PATH"),
        ("::1:9559", "not HOST:PORT, [IPV6]:PORT or unix:PATH"),
        (":9559", "not HOST:PORT, [IPV6]:PORT or unix:PATH"),
        ("ipv4:127.0.0.1:9559", "not HOST:PORT, [IPV6]:PORT or unix:PATH"),
        ("unix:", "its path has 0 bytes, not 1..107"),
        ("unix:/" + 107 * "x", "its path has 108 bytes, not 1..107"),
    ],
)
def test_addresses_that_are_none_are_refused(address: str, message: str) -> None:
    with pytest.raises(AddressError) as caught:
        check_listen_address(address)
    assert str(caught.value) == message
