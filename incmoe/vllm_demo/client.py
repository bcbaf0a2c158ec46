# SPDX-License-Identifier: Apache-2.0
"""Requests to an OpenAI-compatible server of vLLM, by the standard library; starts nothing."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from incmoe.demo.errors import DemoError

ANSWER_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a greedy request brought."""

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


def is_up(url: str) -> bool:
    """Whether the server is ready for requests."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2.0) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def complete(url: str, model: str, prompt: Sequence[int], new_tokens: int) -> Answer:
    """The greedy continuation of a prompt; DemoError when the server gives none."""
    request = urllib.request.Request(
        f"{url}/v1/completions",
        data=json.dumps(asked(model, prompt, new_tokens)).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as response:
            (choice,) = json.load(response)["choices"]
    except urllib.error.HTTPError as error:
        raise DemoError(f"{url}: {error}: {error.read().decode(errors='replace')}") from error
    except OSError as error:
        raise DemoError(f"{url}: {error}") from error
    return Answer(
        text=choice["text"],
        tokens=tuple(choice["token_ids"]),
        logprobs=tuple(choice["logprobs"]["token_logprobs"]),
    )


def complete_all(
    url: str, model: str, prompts: Sequence[Sequence[int]], new_tokens: int, *, at_once: int = 8
) -> list[Answer]:
    """All continuations, several requests under way at a time."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda prompt: complete(url, model, prompt, new_tokens), prompts))


def hang_up(port: int, model: str, prompt: Sequence[int], new_tokens: int) -> None:
    """Ask, and close the connection without waiting for the answer."""
    body = json.dumps(asked(model, prompt, new_tokens) | {"stream": True}).encode()
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head.encode() + body)
        connection.recv(1)  # the server is answering


def asked(model: str, prompt: Sequence[int], new_tokens: int) -> dict[str, Any]:
    """The body of a greedy request."""
    return {
        "model": model,
        "prompt": list(prompt),
        "max_tokens": new_tokens,
        "temperature": 0.0,
        "ignore_eos": True,
        "logprobs": 0,
        "return_token_ids": True,
    }
