# SPDX-License-Identifier: Apache-2.0
"""How a process learns from its environment where to take part."""

import pytest

from host_agent.access import TLS_FILES, VARIABLES, Access, AccessError
from host_agent.bands import Kind


def test_one_variable_is_enough() -> None:
    assert Access.from_environment({"INCMOE_CONTROLLER": "c:1"}) == Access("c:1")


def test_every_variable_counts() -> None:
    given = {
        "INCMOE_CONTROLLER": "unix:/run/c",
        "INCMOE_JOB": "j",
        "INCMOE_HOST": "10.0.0.1",
        "INCMOE_GEOMETRY": "mtu1500",
        "INCMOE_MODE": "static",
        "INCMOE_LANES": "16",
        "INCMOE_BAND_ROWS": "7",
        "INCMOE_LOOK_EVERY_MS": "4",
        "INCMOE_METRICS": "9570",
        "INCMOE_LOG_FORMAT": "json",
    }
    files = {f"INCMOE_TLS_{kind}" for kind in TLS_FILES}
    assert set(given) | files == set(VARIABLES)
    expected = Access(
        *("unix:/run/c", "j", "10.0.0.1", "mtu1500", Kind.STATIC, 16, 7, 0.004),
        metrics="9570",
        log_format="json",
    )
    assert Access.from_environment(given) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("INCMOE_CONTROLLER", ""),
        ("INCMOE_GEOMETRY", "mtu900"),
        ("INCMOE_MODE", "both"),
        ("INCMOE_LANES", "8"),
        ("INCMOE_BAND_ROWS", "-1"),
        ("INCMOE_BAND_ROWS", "many"),
        ("INCMOE_LOOK_EVERY_MS", "0.5"),
        ("INCMOE_METRICS", "here"),
        ("INCMOE_LOG_FORMAT", "xml"),
        ("INCMOE_TLS_CERT", "/nowhere/x.pem"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str) -> None:
    given = {"INCMOE_CONTROLLER": "c:1"} | {name: value}
    with pytest.raises(AccessError, match=f"{name}.*{value}"):
        Access.from_environment(given)
