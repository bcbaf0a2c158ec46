# SPDX-License-Identifier: Apache-2.0
"""P4 programs of the engine tests, and what p4c made of them."""
