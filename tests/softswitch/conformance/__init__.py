# SPDX-License-Identifier: Apache-2.0
"""p4c's own packet tests on BMv2 and on both engines: `make conformance P4C=path`."""
