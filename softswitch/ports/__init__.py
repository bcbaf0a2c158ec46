# SPDX-License-Identifier: Apache-2.0
"""The wires of the switch: UDP sockets, Ethernet interfaces, memory; never a look at a payload."""
