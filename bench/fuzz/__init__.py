# SPDX-License-Identifier: Apache-2.0
"""Nonsense at a running switch, by P4Runtime and by its ports: it must refuse it and go on.

    requests ---- gRPC ----  switch  [1]  ---- random frames, and some that must come through
                                     [2]  ---- where those come out
                                     [64] ---- the controllers' streams

Requests are valid ones, valid ones with fields changed, the same as bytes with bits changed, and
noise, all through raw gRPC. Each must be answered in time, with OK or a code that P4Runtime's
specification has for it: never with UNKNOWN or INTERNAL, which a server that fell over says. A
canary, a request and a frame that have one right answer, is sent in between. The program is changed
often. The switch is a process of its own, whose resident memory is watched.
"""
