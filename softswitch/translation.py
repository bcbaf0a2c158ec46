# SPDX-License-Identifier: Apache-2.0
"""Strings that a controller has for the program's numbers (P4Runtime 1.4, section 8.4.5: types with
`@p4runtime_translation(uri, string)`); one StringNumbers for each translation.

1. What the type's `@p4runtime_translation_mappings({ {"text", number}, ... })` says holds for ever.
2. A decimal number of the type's width is that number, if it is not another string's.
3. Any other string gets a free number when it is first written, and loses it when nothing that the
   control plane has set uses it any more and numbers run short. It never gets 0 or the largest
   number, which programs use for none and for drop.
4. A number that no string has is read as a decimal number.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from softswitch.errors import InvalidUpdate, LoadError, NotFound, ResourceExhausted

_MAPPINGS = "@p4runtime_translation_mappings"
_PAIR = re.compile(r'\{\s*"((?:[^"\\]|\\.)*)"\s*,\s*(\w+)\s*,?\s*\}')
_WIDTH = re.compile(r"^\d+w")  # of a P4 literal
_FEW = 4  # numbers run short when less than one of so many is free


class StringNumbers:
    """The strings of the type, or types, called `name`, and numbers of so many bits."""

    def __init__(self, name: str, bits: int, fixed: Mapping[str, int]) -> None:
        self.name = name
        self.bits = bits
        self._fixed = dict(fixed)
        self._numbers: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        for text, number in fixed.items():
            if not 0 <= number < 1 << bits:
                raise LoadError(f"type {name}: {text!r} is {number}, which {bits} bits do not hold")
            if number in self._texts:
                what = f"{self._texts[number]!r} and {text!r}"
                raise LoadError(f"type {name}: {what} are both {number}")
            self._set(text, number)

    def _set(self, text: str, number: int) -> None:
        self._numbers[text], self._texts[number] = number, text

    def number(self, given: bytes, what: str) -> int:
        """The string's number, from now on if it had none; InvalidUpdate, ResourceExhausted."""
        text = self._decoded(given, what)
        if text not in self._numbers:
            number = self._decimal(text)
            if number is None:
                number = self._free(what)
            elif number in self._texts:
                other = self._texts[number]
                raise InvalidUpdate(f"{what}: {number} is the number of {other!r} already")
            self._set(text, number)
        return self._numbers[text]

    def known(self, given: bytes, what: str) -> int:
        """The number of a string that has one; NotFound."""
        text = self._decoded(given, what)
        number = self._numbers.get(text, self._decimal(text))
        if number is None or self._texts.get(number, text) != text:
            raise NotFound(f"{what}: no {self.name} is called {text!r}")
        return number

    def text(self, number: int) -> bytes:
        """What a controller reads for the number."""
        return self._texts.get(number, str(number)).encode()

    def _decoded(self, given: bytes, what: str) -> str:
        try:
            text = given.decode()
        except UnicodeDecodeError as error:
            raise InvalidUpdate(f"{what}: 0x{given.hex()} is no text in UTF-8") from error
        if not text and text not in self._fixed:
            raise InvalidUpdate(f"{what}: empty string")
        return text

    def _decimal(self, text: str) -> int | None:
        is_number = text.isascii() and text.isdecimal() and (text == "0" or text[0] != "0")
        if not is_number or len(text) > self.bits:  # no digit is less than a bit
            return None
        number = int(text)
        return number if number < 1 << self.bits else None

    def _free(self, what: str) -> int:
        """The highest that no string has."""
        for number in range((1 << self.bits) - 2, 0, -1):
            if number not in self._texts:
                return number
        raise ResourceExhausted(f"{what}: all {self.bits}-bit numbers of {self.name} are in use")

    @property
    def is_short(self) -> bool:
        return len(self._texts) * _FEW > ((1 << self.bits) - 2) * (_FEW - 1)

    def keep_only(self, used: Collection[int]) -> None:
        """Other strings lose their numbers, but for those that the type maps."""
        for text, number in list(self._numbers.items()):
            if number not in used and text not in self._fixed:
                del self._numbers[text], self._texts[number]

    def adopt(self, other: StringNumbers) -> None:
        """Takes over the numbers of strings; InvalidUpdate if they contradict its own."""
        for text, number in other._numbers.items():
            contradicts = self._numbers.get(text, number) != number
            if contradicts or self._texts.get(number, text) != text or number >> self.bits:
                raise InvalidUpdate(f"{text!r} is the {other.name} {number} and cannot stay it")
            self._set(text, number)


def mappings(name: str, annotations: Iterable[str]) -> dict[str, int]:
    """What a type's annotation fixes; LoadError if it cannot be understood."""
    found: dict[str, int] = {}
    for annotation in annotations:
        if not annotation.startswith(_MAPPINGS):
            continue
        for text, literal in _PAIR.findall(annotation):
            try:
                number = int(_WIDTH.sub("", literal), 0)
            except ValueError as error:
                raise LoadError(f"type {name}: {literal} is no number, in {annotation}") from error
            found[re.sub(r"\\(.)", r"\1", text)] = number
    return found
