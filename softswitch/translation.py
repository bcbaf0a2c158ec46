# SPDX-License-Identifier: Apache-2.0
"""Strings that a controller has for the program's numbers (P4Runtime 1.4, section 8.4.5: types with
`@p4runtime_translation(uri, string)`); one StringNumbers for each URI.

1. What the type's `@p4runtime_translation_mappings({ {"text", number}, ... })` says holds for ever.
2. A decimal number of the type's width is that number, if it is not another string's.
3. Any other string gets a free number when it is first written. It never gets 0 or the largest
   number, which programs use for none and for drop.
4. A number that nobody gave a string is read as a decimal number.
5. Strings that nothing in the state uses, nor the request that is being read, lose their numbers as
   soon as those are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from softswitch.errors import InvalidUpdate, LoadError, NotFound, ResourceExhausted

_MAPPINGS = "@p4runtime_translation_mappings"
_PAIR = re.compile(r'\{\s*"((?:[^"\\]|\\.)*)"\s*,\s*([^{}]*?)\s*,?\s*\}')
_REST = re.compile(r"[\s(){},]*")  # of an annotation without its pairs
_WIDTH = re.compile(r"^\d+[ws]")  # of a P4 literal
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class StringNumbers:
    """The strings of the type, or types, called `name`, and numbers of so many bits; `key` is of
    the translation.
    """

    def __init__(self, name: str, bits: int, fixed: Mapping[str, int], key: str = "") -> None:
        self.name = name
        self.key = key or name
        self.bits = bits
        self._fixed = dict(fixed)
        self._numbers: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        self._in_use: Callable[[], Collection[int]] = tuple
        self._wanted: set[int] = set()  # by the request that is being read
        for text, number in fixed.items():
            if not 0 <= number < 1 << bits:
                raise LoadError(f"type {name}: {text!r} is {number}, which {bits} bits do not hold")
            if number in self._texts:
                what = f"{self._texts[number]!r} and {text!r}"
                raise LoadError(f"type {name}: {what} are both {number}")
            self._set(text, number)

    def _set(self, text: str, number: int) -> None:
        self._numbers[text], self._texts[number] = number, text

    def begin(self, in_use: Callable[[], Collection[int]]) -> None:
        """A request is read; `in_use` gives the numbers that the state uses before it."""
        self._in_use = in_use
        self._wanted.clear()

    def number(self, given: bytes, what: str) -> int:
        """The string's number, from now on if it had none; InvalidUpdate, ResourceExhausted."""
        text = self._decoded(given, what)
        if text not in self._numbers:
            self._set(text, self._new_number(text, what))
        number = self._numbers[text]
        self._wanted.add(number)
        return number

    def _new_number(self, text: str, what: str) -> int:
        number = self._decimal(text)
        if number is None:
            return self._free(what)
        if number in self._texts:
            self._forget_unused()
        if number in self._texts:
            other = self._texts[number]
            raise InvalidUpdate(f"{what}: {number} is the number of {other!r} already")
        return number

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
        if not text and text not in self._numbers:
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
        candidates = range((1 << self.bits) - 2, 0, -1)
        found = self._first_free(candidates)
        if found is None:
            self._forget_unused()
            found = self._first_free(candidates)
        if found is None:
            what = f"{what}: all {self.bits}-bit numbers of {self.name} are in use"
            raise ResourceExhausted(what)
        return found

    def _first_free(self, candidates: range) -> int | None:
        return next((number for number in candidates if number not in self._texts), None)

    def _forget_unused(self) -> None:
        kept = self._wanted.union(self._in_use())
        for text, number in list(self._numbers.items()):
            if number not in kept and text not in self._fixed:
                del self._numbers[text], self._texts[number]

    def reserve(self, used: Iterable[int]) -> None:
        """Numbers that were not written as strings are no other string's."""
        for number in used:
            text = self._texts.setdefault(number, str(number))
            self._numbers.setdefault(text, number)  # the type may have the text for another

    def adopt(self, other: StringNumbers, used: Iterable[int]) -> None:
        """Takes over the strings of these numbers; InvalidUpdate if they contradict its own."""
        for number in used:
            text = other.text(number).decode()
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
        pairs = annotation.removeprefix(_MAPPINGS)
        if not _REST.fullmatch(_PAIR.sub("", pairs)):
            raise LoadError(f"type {name}: no list of texts and numbers: {annotation}")
        for escaped, literal in _PAIR.findall(pairs):
            text = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), escaped)
            if text in found:
                raise LoadError(f"type {name}: {text!r} is there twice, in {annotation}")
            found[text] = _literal(name, literal)
    return found


def _literal(name: str, literal: str) -> int:
    """A number as P4 has it: its base is decimal unless it says otherwise."""
    digits = _WIDTH.sub("", literal).lower().removeprefix("0d")
    try:
        return int(digits, 10) if digits.replace("_", "").isdecimal() else int(digits, 0)
    except ValueError as error:
        raise LoadError(f"type {name}: {literal} is no number") from error
