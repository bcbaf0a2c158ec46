# SPDX-License-Identifier: Apache-2.0
"""Tensors of any shape and strides as flat bytes and back; checks what the backend can take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from host_agent.c10d.errors import CollectiveError, UnsupportedError


def check(tensors: Iterable[Tensor]) -> None:
    """Raise UnsupportedError for tensors that do not lie in this machine's memory as they are."""
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise UnsupportedError(f"a tensor on {tensor.device}, tensors must be on cpu")
        if tensor.layout != torch.strided:
            raise UnsupportedError(f"a tensor of layout {tensor.layout}, it must be torch.strided")


def check_written(tensors: Iterable[Tensor]) -> None:
    """Raise UnsupportedError for tensors of which two elements lie at one place."""
    for tensor in tensors:
        pairs = zip(tensor.shape, tensor.stride(), strict=True)
        if any(size > 1 and stride == 0 for size, stride in pairs):
            raise UnsupportedError(
                f"an output of shape {tuple(tensor.shape)} and strides {tensor.stride()}: its "
                "elements share memory"
            )


def one_type(tensors: Sequence[Tensor]) -> torch.dtype:
    """Return the type that tensors have in common."""
    types = sorted({str(tensor.dtype) for tensor in tensors})
    if len(types) != 1:
        raise CollectiveError(f"tensors of {', '.join(types) or 'no type'}, one is needed")
    return tensors[0].dtype


def one(tensors: Sequence[Tensor]) -> Tensor:
    """Return the only tensor of a list; a process has one device."""
    if len(tensors) != 1:
        raise CollectiveError(f"{len(tensors)} tensors for the one device of a process")
    return tensors[0]


def num_bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of the elements of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def to_bytes(tensors: Sequence[Tensor]) -> memoryview:
    """Return the elements of tensors, in their order; perhaps the memory of the only one."""
    views = [_bytes_of(tensor) for tensor in tensors]
    joined = views[0] if len(views) == 1 else torch.cat(views)
    return joined.numpy().data


def of_bytes(data: memoryview | bytearray, dtype: torch.dtype) -> Tensor:
    """Return the elements that `to_bytes` gave, in one dimension and the same memory."""
    if not len(data):
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(data, dtype=torch.uint8).view(dtype)


def fill(tensors: Iterable[Tensor], data: memoryview | bytearray) -> None:
    """Set the elements of tensors to those that `to_bytes` gave."""
    start, view = 0, memoryview(data)
    for tensor in tensors:
        end = start + num_bytes([tensor])
        write(tensor, of_bytes(view[start:end], tensor.dtype))
        start = end


def spread(tensors: Iterable[Tensor], values: Tensor) -> None:
    """Set the elements of tensors to `values`, which are of their type and as many."""
    start = 0
    for tensor in tensors:
        write(tensor, values[start : start + tensor.numel()])
        start += tensor.numel()


def write(tensor: Tensor, values: Tensor) -> None:
    """Set the elements of a tensor of any shape and strides; inference mode is per thread."""
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        tensor.copy_(values.reshape(tensor.shape))


@contextmanager
def reading(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Let this thread look at tensors as the thread that made them can."""
    with torch.inference_mode(any(tensor.is_inference() for tensor in tensors)), torch.no_grad():
        yield


def _bytes_of(tensor: Tensor) -> Tensor:
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8)
