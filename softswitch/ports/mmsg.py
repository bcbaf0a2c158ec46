# SPDX-License-Identifier: Apache-2.0
"""recvmmsg and sendmmsg (Linux) on arrays of messages: one system call for a whole batch."""

from __future__ import annotations

import ctypes
import os
import socket
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from softswitch.ports.frames import Bytes, Frames

# struct iovec and struct mmsghdr of 64-bit Linux (recvmmsg(2), sendmsg(2)).
IOVEC = np.dtype([("base", np.uint64), ("bytes", np.uint64)])
MMSGHDR = np.dtype(
    [
        ("name", np.uint64),
        ("name_bytes", np.uint32),
        ("", np.uint32),
        ("iov", np.uint64),
        ("iov_count", np.uint64),
        ("control", np.uint64),
        ("control_bytes", np.uint64),
        ("flags", np.int32),
        ("", np.uint32),
        ("bytes", np.uint32),
        ("", np.uint32),
    ]
)
MAX_MESSAGES = 1024  # UIO_MAXIOV: messages of one call, and buffers of one message
NAME_BYTES = 32  # room for any socket address in use here
CONTROL_BYTES = 64

_libc = ctypes.CDLL(None, use_errno=True)
_recvmmsg = _libc.recvmmsg
_recvmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p]
_sendmmsg = _libc.sendmmsg
_sendmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]

Messages = NDArray[np.void]


def field_at(name: str) -> int:
    """The offset of a field of struct mmsghdr."""
    assert MMSGHDR.fields is not None
    return MMSGHDR.fields[name][1]


def address_of(array: NDArray[np.generic]) -> int:
    """Where the array's memory starts; the caller keeps the array alive while it is in use."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(cast(Any, array)))
    except (TypeError, ValueError):
        return int(array.ctypes.data)  # read-only or empty; four times as slow


def rows_of(array: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Where each row of a two-dimensional array starts."""
    step = np.uint64(array.strides[0])
    return np.uint64(address_of(array)) + np.arange(len(array), dtype=np.uint64) * step


def send_messages(fd: int, address: int, count: int) -> int:
    """How many of the messages the kernel took, at least one; OSError if not even the first."""
    sent = int(_sendmmsg(fd, address, min(count, MAX_MESSAGES), socket.MSG_DONTWAIT))
    if sent < 0:
        raise _last_error()
    return sent


class MessageRoom:
    """Reusable messages for one sendmmsg after the other, each of one frame."""

    def __init__(self) -> None:
        self._make(MAX_MESSAGES)

    def _make(self, num: int) -> None:
        self._buffers = np.zeros(num, dtype=IOVEC)
        self._messages: Messages = np.zeros(num, dtype=MMSGHDR)
        self._messages["iov"] = rows_of(self._buffers.view(np.uint8).reshape(-1, IOVEC.itemsize))
        self._messages["iov_count"] = 1
        self._base, self._bytes = self._buffers["base"], self._buffers["bytes"]

    def fill(self, frames: Frames) -> Messages:
        """One message for each frame; good until the next call, as long as the frames are."""
        num = len(frames)
        if num > len(self._messages):
            self._make(2 * num)
        np.add(frames.offset, address_of(frames.data), out=self._base[:num], casting="unsafe")
        self._bytes[:num] = frames.length
        return self._messages[:num]


class ReceiveRing:
    """Reusable buffers for one recvmmsg; what they hold is good until the next `receive`."""

    def __init__(self, num_messages: int, buffer_bytes: int) -> None:
        self.data: Bytes = np.empty((num_messages, buffer_bytes), dtype=np.uint8)
        self.names: Bytes = np.zeros((num_messages, NAME_BYTES), dtype=np.uint8)
        self.control: Bytes = np.zeros((num_messages, CONTROL_BYTES), dtype=np.uint8)
        self._buffers = np.zeros(num_messages, dtype=IOVEC)
        self._buffers["base"] = rows_of(self.data)
        self._buffers["bytes"] = buffer_bytes
        self.messages: Messages = np.zeros(num_messages, dtype=MMSGHDR)
        self.messages["name"] = rows_of(self.names)
        self.messages["iov"] = rows_of(self._buffers.view(np.uint8).reshape(num_messages, 16))
        self.messages["iov_count"] = 1
        self.messages["control"] = rows_of(self.control)
        self.messages["name_bytes"] = NAME_BYTES
        self.messages["control_bytes"] = CONTROL_BYTES
        self._fresh = self.messages.copy()
        parts = (self.messages, self.names, self.control, self.data)
        self._addresses: tuple[int, ...] = tuple(map(address_of, parts))

    def addresses(self) -> tuple[int, ...]:
        """Of the messages, their names, their control data and their buffers."""
        return self._addresses

    def receive(self, fd: int, limit: int | None = None) -> int:
        """Fills the ring from the socket without waiting; how many messages came, 0 if none."""
        count = min(limit or len(self.messages), len(self.messages))
        self.messages[:count] = self._fresh[:count]
        got = int(_recvmmsg(fd, self._addresses[0], count, socket.MSG_DONTWAIT, None))
        if got >= 0:
            return got
        error = _last_error()
        if isinstance(error, BlockingIOError | InterruptedError):
            return 0
        raise error


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
