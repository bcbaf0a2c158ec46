# SPDX-License-Identifier: Apache-2.0
"""Packet tests in STF, the language of p4c's own tests, run on an engine inside this process."""

from softswitch.stf.language import parse
from softswitch.stf.runner import Outcome, differences, run

__all__ = ["Outcome", "differences", "parse", "run"]
