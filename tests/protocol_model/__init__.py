# SPDX-License-Identifier: Apache-2.0
"""The protocol, searched exhaustively: the classes ranks run and the switch's rules, in every order
of events that a network without any promise allows (docs/protocol.md, "What was checked").
"""
