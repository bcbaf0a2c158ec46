# SPDX-License-Identifier: Apache-2.0
"""Sends prepared messages through sendmmsg until the kernel has no room, and names what failed."""

from __future__ import annotations

import errno
from collections.abc import Callable

from softswitch.ports.mmsg import MMSGHDR, Messages, address_of, send_messages

# What an error on one message means for the frames of that message.
LOSS_OF_ERROR = {
    errno.ECONNREFUSED: "tx_refused",
    errno.EMSGSIZE: "tx_too_big",
    errno.ENOBUFS: "tx_queue_full",  # the interface's own queue, below the socket's
}
NO_ROOM = frozenset({errno.EAGAIN, errno.EINTR})

OnError = Callable[[int, int], bool]


def send_all(fd: int, messages: Messages, on_error: OnError) -> int:
    """Sends in order, as long as the kernel has room; how many messages were dealt with.

    `on_error(message, errno)` is told of a message that failed: True skips it, False stops there.
    """
    address, done = address_of(messages), 0
    while done < len(messages):
        try:
            rest = address + done * MMSGHDR.itemsize
            done += send_messages(fd, rest, len(messages) - done)
        except OSError as error:
            number = error.errno or errno.EIO
            if number in NO_ROOM or not on_error(done, number):
                break
            done += 1
    return done


def loss_of(number: int) -> str:
    return LOSS_OF_ERROR.get(number, "tx_error")
