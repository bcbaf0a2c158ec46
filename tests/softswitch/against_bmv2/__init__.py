# SPDX-License-Identifier: Apache-2.0
"""Random entries and frames through BMv2 and both engines: `make differential P4C=path`."""
