# SPDX-License-Identifier: Apache-2.0
"""gRPC over mutual TLS: both ends show a certificate of one authority; makes no certificate.

gRPC is imported when it is used: a command sets how much it says before.
"""

from __future__ import annotations

import argparse
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from ops.address import check_listen_address

if TYPE_CHECKING:
    import grpc

OPTIONS: Final = {
    "cert": "certificate of this end (PEM)",
    "key": "its private key (PEM)",
    "ca": "certificate of the authority that signed the other end's (PEM)",
}

# What each file holds, and how that begins (RFC 7468).
_PEM: Final = {
    "cert": ("certificate", b"-----BEGIN CERTIFICATE-----"),
    "key": ("private key", b"-----BEGIN .*PRIVATE KEY-----"),
    "ca": ("certificate", b"-----BEGIN CERTIFICATE-----"),
}


class TlsError(ValueError):
    """Files that do not make a credential; names the file."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of one end. `name`: whom a server's certificate names, if not its address."""

    cert: Path
    key: Path
    ca: Path
    name: str = ""

    @classmethod
    def given(cls, cert: Path | None, key: Path | None, ca: Path | None) -> Self:
        """All three, checked; raises TlsError."""
        files = {"cert": cert, "key": key, "ca": ca}
        for which, path in files.items():
            if path is None:
                raise TlsError(f"TLS needs cert, key and ca: no {which}")
            _check_pem(which, path)
        assert cert is not None
        assert key is not None
        assert ca is not None
        for which, path in (("cert", cert), ("ca", ca)):
            _check_certificates(which, path)
        _check_pair(cert, key)
        return cls(cert, key, ca)

    def channel(self, address: str, options: Sequence[tuple[str, Any]] = ()) -> grpc.Channel:
        """Return a channel to a server that must show a certificate too."""
        import grpc

        named = [("grpc.ssl_target_name_override", self.name)] if self.name else []
        credentials = grpc.ssl_channel_credentials(*self._contents())
        return grpc.secure_channel(address, credentials, options=[*options, *named])

    def add_port(self, server: grpc.Server, address: str) -> int:
        """Let a server listen for clients that show a certificate; RuntimeError as gRPC's own."""
        import grpc

        ca, key, cert = self._contents()
        credentials = grpc.ssl_server_credentials([(key, cert)], ca, require_client_auth=True)
        return server.add_secure_port(address, credentials)

    def _contents(self) -> tuple[bytes, bytes, bytes]:
        return _read("ca", self.ca), _read("key", self.key), _read("cert", self.cert)


def open_channel(
    address: str, tls: Tls | None, options: Sequence[tuple[str, Any]] = ()
) -> grpc.Channel:
    """Return a channel, plain without `tls`."""
    import grpc

    if tls is None:
        return grpc.insecure_channel(address, options=options)
    return tls.channel(address, options)


def add_port(server: grpc.Server, address: str, tls: Tls | None) -> int:
    """Let a server listen, plainly without `tls`; AddressError for what is no address, else
    RuntimeError or 0 where it cannot.
    """
    check_listen_address(address)
    return server.add_insecure_port(address) if tls is None else tls.add_port(server, address)


def client_name(context: grpc.ServicerContext) -> str:
    """Return the common name of the caller's certificate; "" where there was none."""
    names: Any = context.auth_context().get("x509_common_name", ())  # the stubs have it wrong
    return next((str(name, "utf-8") for name in names), "")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Describe --tls-cert, --tls-key and --tls-ca."""
    for name, text in OPTIONS.items():
        parser.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=text)


def of_options(args: argparse.Namespace) -> Tls | None:
    """Return what the options of `add_options` say; None without any; raises TlsError."""
    given = args.tls_cert, args.tls_key, args.tls_ca
    return Tls.given(*given) if any(given) else None


def _check_pem(which: str, path: Path) -> None:
    what, begin = _PEM[which]
    if not re.search(begin, _read(which, path)):
        line = begin.decode().replace(".*", "... ")
        raise TlsError(f"TLS {which}: {path} is no {what} in PEM: it has no line {line}")


def _check_certificates(which: str, path: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(path)
    except OSError as error:
        raise TlsError(f"TLS {which}: {path} is no certificate: {_reason(error)}") from None


def _check_pair(cert: Path, key: Path) -> None:
    def password() -> str:
        raise TlsError(f"TLS key: {key} needs a password, which nobody can be asked for")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsError(f"TLS key: {key} is not the key of {cert}") from None
        raise TlsError(f"TLS key: {key} with {cert}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    """What OpenSSL says; it says nothing of some contents that are not what they should be."""
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return (reason or "its contents are damaged").lower().replace("_", " ")


def _read(which: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsError(f"TLS {which}: {path}: {error.strerror}") from None
