# SPDX-License-Identifier: Apache-2.0
"""Tests of what all services have in common."""
