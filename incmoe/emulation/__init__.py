# SPDX-License-Identifier: Apache-2.0
"""Ranks and P4 switches in Mininet (docs/mininet.md)."""
