# SPDX-License-Identifier: Apache-2.0
"""Addresses that gRPC servers listen at, checked: gRPC itself wraps and guesses ports."""

from __future__ import annotations

from typing import Final

MAX_PORT: Final = 0xFFFF
MAX_PATH_BYTES: Final = 107  # of a socket in the file system (sun_path, with its final zero)
UNIX: Final = "unix:"
_ABSTRACT: Final = "unix-abstract:"


class AddressError(ValueError):
    """No address to listen at; says what is wrong with it."""


def check_listen_address(address: str) -> None:
    """HOST:PORT, [IPV6]:PORT, unix:PATH or unix-abstract:NAME; raises AddressError."""
    if address.startswith(UNIX):
        _check_path(address.removeprefix(UNIX))
    elif not address.startswith(_ABSTRACT):
        _check_host_and_port(address)


def _check_path(path: str) -> None:
    num_bytes = len(path.encode())
    if not 0 < num_bytes <= MAX_PATH_BYTES:
        raise AddressError(f"its path has {num_bytes} bytes, not 1..{MAX_PATH_BYTES}")


def _check_host_and_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    is_ipv6 = host.startswith("[") and host.endswith("]")
    if not host or (":" in host and not is_ipv6):
        raise AddressError("not HOST:PORT, [IPV6]:PORT or unix:PATH")
    if not (port.isascii() and port.isdigit()) or int(port) > MAX_PORT:
        raise AddressError(f"port {port!r} is not a number in 0..{MAX_PORT}")
