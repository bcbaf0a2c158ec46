# SPDX-License-Identifier: Apache-2.0
"""The demo: real processes, real text, and the same model in one process to compare with."""
