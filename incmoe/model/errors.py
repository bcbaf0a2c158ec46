# SPDX-License-Identifier: Apache-2.0
"""The one error that this package raises for bad input."""

from __future__ import annotations


class ModelError(ValueError):
    """A model, checkpoint, model description or text that cannot be used."""
