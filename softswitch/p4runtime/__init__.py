# SPDX-License-Identifier: Apache-2.0
"""The P4Runtime server of the switch: messages in, control-plane state out; it sees no packet."""
