# SPDX-License-Identifier: Apache-2.0
"""`python -m host_agent.huggingface`: which families of transformers go, which not."""

import sys

from host_agent.huggingface.families import lists

sys.stdout.write(lists())
