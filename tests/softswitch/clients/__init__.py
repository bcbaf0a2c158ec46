# SPDX-License-Identifier: Apache-2.0
"""Controllers that are not ours, each in an interpreter that has it, against a running switch."""
