# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over the switch and over gloo: all_gather and reduce_scatter of tensors.

Both at once, of the same float32 tensors, on the same shaped links, in turn. Each link direction
should carry N M bytes over the switch, M being a rank's own part, and 2 (N - 1) M over rings; but
gloo's reduce_scatter_tensor (torch 2.13) is an all_reduce of which it keeps a part: 3 (N - 1) M.
"""
