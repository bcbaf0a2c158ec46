# SPDX-License-Identifier: Apache-2.0
"""Ranks and a P4 switch in Mininet (docs/mininet.md)."""
