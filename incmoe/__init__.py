# SPDX-License-Identifier: Apache-2.0
"""The command `incmoe` and the demo: puts the switch, the control plane and the ranks together."""
