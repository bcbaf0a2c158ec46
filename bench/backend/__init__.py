# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over the switch and over gloo: all_gather and reduce_scatter of tensors.

Both at once, of the same float32 tensors, on the same shaped links, in turn. Each link direction
should carry N M bytes over the switch, 2 (N - 1) M over gloo's rings, M being a rank's own part.
"""
