# SPDX-License-Identifier: Apache-2.0
"""A rank of an expert-parallel group whose dispatch and combine run in the switch."""
