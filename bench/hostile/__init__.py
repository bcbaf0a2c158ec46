# SPDX-License-Identifier: Apache-2.0
"""Hostile packets against a running job: no sum may change, every one must be counted.

    members 0..3 ---- UDP ---- [1..4]  switch  [5] ---- raw frames: random, crafted
    (also sent to from elsewhere) ^            [6] ---- UDP: floods, datagrams too big
                                               [7, 8]   another job

Random packets range from noise to messages of ours with single fields wrong; what the switch must
do with each is told beforehand by a model of its door (door.py). Crafted packets are genuine
messages, recorded at a member's socket, sent from where they may not come from, with one field
changed, or again. Some come in through a member's own port, as from somebody who has its place.
"""
