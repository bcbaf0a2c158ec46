# SPDX-License-Identifier: Apache-2.0
"""Benchmarks; nothing imports them."""
