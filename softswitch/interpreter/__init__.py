# SPDX-License-Identifier: Apache-2.0
"""A slow engine that is easy to check against the rules and defines what they mean."""

from softswitch.interpreter.engine import Interpreter

__all__ = ["Interpreter"]
