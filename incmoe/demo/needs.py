# SPDX-License-Identifier: Apache-2.0
"""What a plan needs of the machine it runs on: programs and rights; installs nothing."""

from __future__ import annotations

import os
import shutil
from typing import Final

from incmoe.demo.errors import DemoError
from incmoe.demo.plan import BMV2, LOOPBACK, MININET, VETH, Plan

# Program -> the Debian and Ubuntu package that has it.
PACKAGES: Final = {
    "ip": "package iproute2",
    "tc": "package iproute2",
    "ethtool": "package ethtool",
    "mnexec": "package mininet",
    "ifconfig": "package net-tools",
    "simple_switch_grpc": "package p4lang-bmv2, from p4lang: "
    "https://github.com/p4lang/behavioral-model",
}

_PROGRAMS: Final = {
    VETH: ("ip", "ethtool"),
    MININET: ("mnexec", "ifconfig", "ip", "tc", "ethtool"),
}


def check(plan: Plan) -> None:
    """Raises DemoError, one line for all that is missing."""
    if plan.links == LOOPBACK:
        return
    programs = [*_PROGRAMS[plan.links]] + ["simple_switch_grpc"] * (plan.switch == BMV2)
    missing = [f"{name} ({PACKAGES[name]})" for name in programs if shutil.which(name) is None]
    if os.geteuid() != 0:
        missing.append("root, for network namespaces (run it with sudo)")
    if missing:
        raise DemoError(f"--switch {plan.switch} on {plan.links} links needs {'; '.join(missing)}")
