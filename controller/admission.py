# SPDX-License-Identifier: Apache-2.0
"""Whether a rank that joins fits its job, and the ranks that joined before. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.address import ip_text, parse_ip
from controller.errors import RefusedError
from controller.job import Job
from host_agent.messages import Join

MAX_UDP_PORT: Final = 0xFFFF


def check_join(job: Job, join: Join) -> None:
    """Raise RefusedError where a join contradicts the job file."""
    if not 0 <= join.rank < job.world_size:
        raise RefusedError(
            f"{who(join)} is outside 0..{job.world_size - 1}: the job has {job.world_size} ranks"
        )
    known = job.ranks[join.rank].endpoint
    try:
        host = parse_ip(join.host)
    except ValueError:
        raise RefusedError(f"{who(join)}: {join.host!r} is not an IPv4 address") from None
    if not 1 <= join.udp_port <= MAX_UDP_PORT:
        raise RefusedError(f"{who(join)}: udp port {join.udp_port} is outside 1..{MAX_UDP_PORT}")
    if host == 0 and known.ip is None:
        raise RefusedError(f"{who(join)}: bound to 0.0.0.0, and the job file gives no ip")
    pairs: list[tuple[str, object, object]] = [
        ("world size", join.world_size, job.world_size),
        ("geometry", join.geometry, job.geometry),
        ("ip", join.host, ip_text(known.ip) if known.ip and host else join.host),
        ("udp port", join.udp_port, known.udp_port or join.udp_port),
    ]
    given_print = _flat(join.fingerprint)
    pairs += [
        (f"fingerprint field {name}", given_print.get(name, "missing"), value)
        for name, value in _flat(job.fingerprint).items()
    ]
    for name, given, expected in pairs:
        if given != expected:
            raise RefusedError(f"{who(join)}: {name} is {given}, the job file says {expected}")


def check_identity(job: Job, rank: int, client: str) -> None:
    """Raise RefusedError where a caller does not show the certificate that its rank has."""
    if not 0 <= rank < job.world_size or client == job.ranks[rank].certificate:
        return  # what rank there is, is checked with everything else
    if job.ranks[rank].certificate:
        shown = f"a certificate of {client}" if client else "no certificate"
        raise RefusedError(f"job {job.name}: rank {rank} shows {shown}, not its own")


def check_operator(job: Job, client: str) -> None:
    """Raise RefusedError where a caller shows a rank's certificate: ranks do not replace ranks.

    Where ranks are told by certificates, so is an operator.
    """
    if not client and any(rank.certificate for rank in job.ranks):
        raise RefusedError(
            f"job {job.name}: a rank is replaced with an operator's certificate, there is none"
        )
    for number, rank in enumerate(job.ranks):
        if client and client == rank.certificate:
            raise RefusedError(
                f"job {job.name}: {client} is the certificate of rank {number}, "
                "a rank is replaced with an operator's"
            )


def shared_address(one: Join, other: Join) -> str:
    """Return what is wrong if two ranks gave one address; or ''."""
    if parse_ip(other.host) == 0 or address(one) != address(other):  # 0.0.0.0: the file knows
        return ""
    return f"ranks {one.rank} and {other.rank} are both at {address(one)}"


def fingerprint_difference(one: Join, other: Join) -> str:
    """Return the first field in which two fingerprints differ, both values and ranks; or ''."""
    ours, theirs = _flat(one.fingerprint), _flat(other.fingerprint)
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name, "missing") != theirs.get(name, "missing"):
            return (
                f"fingerprint field {name} is {ours.get(name, 'missing')!r} at rank {one.rank} "
                f"and {theirs.get(name, 'missing')!r} at rank {other.rank}"
            )
    return ""


def _flat(fingerprint: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in fingerprint.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def address(join: Join) -> str:
    return f"{join.host}:{join.udp_port}"


def who(join: Join) -> str:
    return f"job {join.job}: rank {join.rank}"
