# SPDX-License-Identifier: Apache-2.0
"""A small OLMoE model that learned the Python standard library; loads any other OLMoE too."""

from incmoe.model.errors import ModelError
from incmoe.model.loading import CHECKPOINT, Shape, load

__all__ = ["CHECKPOINT", "ModelError", "Shape", "load"]
