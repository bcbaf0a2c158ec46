# SPDX-License-Identifier: Apache-2.0
import torch

torch.set_num_threads(1)
