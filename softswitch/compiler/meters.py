# SPDX-License-Identifier: Apache-2.0
"""Two-rate meters: how a cell lies in memory, and the code that finds a packet's colour.

A cell is u64 words: whether it has rates, then the buckets of the peak and of the other rate, each
f64 tokens per microsecond, burst, tokens, tokens since the clock began.
"""

from __future__ import annotations

import struct

import llvmlite.ir as ll
import numpy as np
import numpy.typing as npt

from softswitch.compiler import values as v
from softswitch.compiler.emitter import Emitter
from softswitch.compiler.memory import METER_BYTES, NOW
from softswitch.engine import MeterRates

_CELL = struct.Struct("<QdQQQdQQQ")
assert _CELL.size == METER_BYTES
_BUCKETS = (8, 40)  # byte offsets of the peak's and the other one
GREEN, YELLOW, RED = range(3)


def pack(rates: MeterRates | None) -> npt.NDArray[np.uint8]:
    """A cell with full buckets."""
    if rates is None:
        return np.zeros(METER_BYTES, np.uint8)
    peak = (rates.peak_rate, rates.peak_burst, rates.peak_burst, 0)
    raw = _CELL.pack(1, *peak, rates.rate, rates.burst, rates.burst, 0)
    return np.frombuffer(raw, np.uint8)


def unpack(cell: npt.NDArray[np.uint8]) -> MeterRates | None:
    has_rates, peak_rate, peak_burst, _, _, rate, burst, _, _ = _CELL.unpack(cell.tobytes())
    return MeterRates(rate, burst, peak_rate, peak_burst) if has_rates else None


def colour(e: Emitter, cell: ll.Value, *, counts_bytes: bool) -> ll.Value:
    """The packet's colour, i32; its tokens are taken."""
    num = e.packet.length if counts_bytes else v.i64(1)
    now = v.load(e.b, e.symbol(NOW), 64, align=8)
    return e.b.call(_colour_function(e.b.module), [cell, now, num])


def _colour_function(module: ll.Module) -> ll.Function:
    """colour(cell, now in microseconds, tokens to take) -> i32, built once."""
    name = "meter colour"
    if name in module.globals:
        return module.globals[name]
    kind = ll.FunctionType(v.I32, [v.POINTER, v.I64, v.I64])
    function = ll.Function(module, kind, name)
    function.linkage = "internal"
    b = ll.IRBuilder(function.append_basic_block("entry"))
    cell, now, num = function.args
    has_rates = b.icmp_unsigned("!=", v.load(b, cell, 64, align=8), v.i64(0))
    with b.if_then(b.not_(has_rates)):
        b.ret(v.const(32, GREEN))
    for offset, exceeded in zip(_BUCKETS, (RED, YELLOW), strict=True):
        _take(b, v.at(b, cell, offset), now, num, exceeded)
    b.ret(v.const(32, GREEN))
    return function


def _take(b: ll.IRBuilder, bucket: ll.Value, now: ll.Value, num: ll.Value, exceeded: int) -> None:
    """Fill the bucket up to now and take tokens; return from the function if there are too few."""
    double = ll.DoubleType()
    rate = b.load(bucket, align=8, typ=double)
    burst, tokens, before = (v.load(b, v.at(b, bucket, 8 * i), 64, align=8) for i in (1, 2, 3))
    total = b.fptoui(b.fmul(b.uitofp(now, double), rate), v.I64)
    filled = v.umin(b, b.add(tokens, b.sub(total, before)), burst)
    b.store(total, v.at(b, bucket, 24), align=8)
    too_few = b.icmp_unsigned("<", filled, num)
    b.store(b.select(too_few, filled, b.sub(filled, num)), v.at(b, bucket, 16), align=8)
    with b.if_then(too_few):
        b.ret(v.const(32, exceeded))
