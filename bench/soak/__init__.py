# SPDX-License-Identifier: Apache-2.0
"""A job that runs for long while it is harmed at random; every sum is checked, memory is watched.

Switch, controller and ranks are processes. The switch loses, repeats and reorders frames all the
time; now and then a rank is paused, paused for longer than the others wait, or killed and started
again, or the link of a rank goes down and up. A rank that loses the job joins again, and the job
goes on under a new generation. Rank 0, the switch and the controller live all the time: their
memory and descriptors must not grow.

With root the links are veth pairs between namespaces; without, UDP over loopback, whose links
cannot go down.
"""
