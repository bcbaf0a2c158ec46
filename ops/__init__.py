# SPDX-License-Identifier: Apache-2.0
"""What all services have in common: log lines, metrics, TLS; knows none of them."""
