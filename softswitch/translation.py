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
from itertools import chain

from softswitch.errors import InvalidUpdate, LoadError, NotFound, ResourceExhausted

_MAPPINGS = "@p4runtime_translation_mappings"
_PAIR = re.compile(r'\{\s*"((?:[^"\\]|\\.)*)"\s*,\s*([^{}]*?)\s*,?\s*\}')
_REST = re.compile(r"[\s(){},]*")  # of an annotation without its pairs
_WIDTH = re.compile(r"^\d+[ws]")  # of a P4 literal
FEW_STRINGS = 1024  # no need to look for unused ones
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class StringNumbers:
    """The strings of the type, or types, called `name`; `key` is of the translation. Of more than
    one type, new numbers fit the narrowest, which has so many bits, and others have up to `widest`.
    """

    def __init__(
        self, name: str, bits: int, fixed: Mapping[str, int], *, key: str = "", widest: int = 0
    ) -> None:
        self.name = name
        self.key = key or name
        self.widest = max(bits, widest)
        self.bits = bits
        self._fixed = dict(fixed)
        self._numbers: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        self._in_use: Callable[[], Collection[int]] = tuple
        self._wanted: set[int] = set()  # by the request that is being read
        self.kept: set[int] = set()
        self._last = self._top  # that was given
        self._many = FEW_STRINGS
        for text, number in fixed.items():
            if not 0 <= number < 1 << self.widest:
                what = f"{text!r} is {number}, which {self.widest} bits do not hold"
                raise LoadError(f"type {name}: {what}")
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
        if len(self._texts) > self._many:
            self._forget_unused()
            self._many = max(FEW_STRINGS, 2 * len(self._texts))

    def number(self, given: bytes, what: str, bits: int) -> int:
        """The string's number, of so many bits, from now on if it had none; InvalidUpdate,
        ResourceExhausted.
        """
        text = self._decoded(given, what)
        if text not in self._numbers:
            self._set(text, self._new_number(text, what, bits))
        number = self._numbers[text]
        if number >> bits:
            raise InvalidUpdate(f"{what}: {text!r} is {number}, which {bits} bits do not hold")
        self._wanted.add(number)
        return number

    def keep(self, number: int) -> None:
        """It is used for ever, for all that is known: by a cell of a register."""
        self.kept.add(number)

    def _new_number(self, text: str, what: str, bits: int) -> int:
        number = self._decimal(text, bits)
        if number is None:
            return self._free(what)
        if number in self._texts:
            self._forget_unused()
        if number in self._texts:
            other = self._texts[number]
            raise InvalidUpdate(f"{what}: {number} is the number of {other!r} already")
        return number

    def known(self, given: bytes, what: str, bits: int) -> int:
        """The number of a string that has one, of so many bits; NotFound."""
        text = self._decoded(given, what)
        number = self._numbers.get(text, self._decimal(text, bits))
        if number is None or number >> bits or self._texts.get(number, text) != text:
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

    @staticmethod
    def _decimal(text: str, bits: int) -> int | None:
        is_number = text.isascii() and text.isdecimal() and (text == "0" or text[0] != "0")
        if not is_number or len(text) > bits // 3 + 1:  # a digit is more than 3 bits
            return None
        number = int(text)
        return number if number < 1 << bits else None

    @property
    def _top(self) -> int:
        return (1 << self.bits) - 2

    def _free(self, what: str) -> int:
        """The next below the last one that no string has, in turn."""
        found = self._next_free()
        if found is None:
            self._forget_unused()
            found = self._next_free()
        if found is None:
            what = f"{what}: all {self.bits}-bit numbers of {self.name} are in use"
            raise ResourceExhausted(what)
        self._last = found
        return found

    def _next_free(self) -> int | None:
        candidates = chain(range(self._last, 0, -1), range(self._top, self._last, -1))
        return next((number for number in candidates if number not in self._texts), None)

    def _forget_unused(self) -> None:
        kept = self._wanted.union(self.kept, self._in_use())
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
            if contradicts or self._texts.get(number, text) != text or number >> self.widest:
                raise InvalidUpdate(f"{text!r} is the {other.name} {number} and cannot stay it")
            self._set(text, number)
        self.kept |= other.kept


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
