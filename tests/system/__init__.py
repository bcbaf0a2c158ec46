# SPDX-License-Identifier: Apache-2.0
"""The tests; nothing imports them."""
