# SPDX-License-Identifier: Apache-2.0
"""`incmoe vllm-demo`: vLLM serves a small model with its experts on all ranks, through a switch."""
