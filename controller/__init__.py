# SPDX-License-Identifier: Apache-2.0
"""The control plane: puts jobs on switches over P4Runtime, and lets ranks meet. Moves no data."""
