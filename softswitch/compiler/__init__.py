# SPDX-License-Identifier: Apache-2.0
"""The compiling engine: a v1model program becomes one native function per batch, through LLVM."""

from softswitch.compiler.buffers import OutputBuffers
from softswitch.compiler.engine import CompiledEngine

__all__ = ["CompiledEngine", "OutputBuffers"]
