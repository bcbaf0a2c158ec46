# SPDX-License-Identifier: Apache-2.0
"""The embedded v1model switch; it never imports another package of this project."""
