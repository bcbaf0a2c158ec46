# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.distributed: real processes, a real switch."""
