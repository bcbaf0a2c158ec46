# SPDX-License-Identifier: Apache-2.0
"""Numbers for strings, without a switch."""

from __future__ import annotations

import pytest

from softswitch.errors import InvalidUpdate, LoadError, NotFound, ResourceExhausted
from softswitch.translation import StringNumbers, mappings


def names(bits: int = 4, **fixed: int) -> StringNumbers:
    return StringNumbers("vrf_t", bits, fixed)


def test_a_string_keeps_its_number_and_another_gets_another() -> None:
    known = names()
    first, second = known.number(b"blue", "key"), known.number(b"green", "key")
    assert first != second
    assert (known.number(b"blue", "key"), known.known(b"green", "key")) == (first, second)
    assert (known.text(first), known.text(second)) == (b"blue", b"green")


def test_what_the_type_says_holds_and_decimal_numbers_are_themselves() -> None:
    known = StringNumbers("vrf_t", 4, {"": 0, "red": 7})
    assert (known.number(b"", "key"), known.number(b"red", "key")) == (0, 7)
    assert (known.number(b"3", "key"), known.known(b"5", "key")) == (3, 5)
    assert [known.text(number) for number in (0, 3, 7, 11)] == [b"", b"3", b"red", b"11"]


@pytest.mark.parametrize("text", [b"03", b"16", b"-1", b" 3", b"0x3", "\u0663".encode()])
def test_what_is_no_decimal_number_of_the_width_is_a_string(text: bytes) -> None:
    known = names()
    assert known.text(known.number(text, "key")) == text
    assert known.number(text, "key") not in (0, 3, 15)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "key: empty string"),
        (b"\xff\xfe", "key: 0xfffe is no text in UTF-8"),
        (b"14", "key: 14 is the number of 'blue' already"),
    ],
)
def test_what_can_be_no_string_is_refused(text: bytes, reason: str) -> None:
    known = names()
    assert known.number(b"blue", "key") == 14
    with pytest.raises(InvalidUpdate, match=reason):
        known.number(text, "key")


def test_a_string_that_nobody_wrote_is_not_known() -> None:
    known = names(red=7)
    for text in (b"blue", b"7", b"16"):
        with pytest.raises(NotFound, match="no vrf_t is called"):
            known.known(text, "metadata")
    assert known.known(b"red", "metadata") == 7


def test_numbers_run_short_and_are_given_back() -> None:
    known = names(bits=3, red=2)
    taken = [known.number(str(name).encode(), "key") for name in "abcde"]
    assert sorted(taken) == [1, 3, 4, 5, 6]
    with pytest.raises(ResourceExhausted, match="key: all 3-bit numbers of vrf_t are in use"):
        known.number(b"f", "key")
    assert not names(bits=3).is_short
    assert known.is_short
    known.keep_only({taken[0]})
    assert known.number(b"f", "key") in taken[1:]
    assert (known.known(b"a", "key"), known.known(b"red", "key")) == (taken[0], 2)


def test_a_new_type_takes_over_numbers_or_says_why_not() -> None:
    old, new = names(), names()
    number = old.number(b"blue", "key")
    new.adopt(old)
    assert new.known(b"blue", "key") == number
    for other in (names(bits=3), names(other=number), names(blue=number - 1)):
        with pytest.raises(InvalidUpdate, match=f"'blue' is the vrf_t {number} and cannot stay it"):
            other.adopt(old)


def test_mappings_are_read_as_p4c_writes_them() -> None:
    text = '@p4runtime_translation_mappings({ { "" , 0 } , { "a \\"b\\"" , 16w0x1F } , })'
    assert mappings("vrf_t", ["@other", text]) == {"": 0, 'a "b"': 31}
    with pytest.raises(LoadError, match="type vrf_t: many is no number"):
        mappings("vrf_t", ['@p4runtime_translation_mappings({{"x", many}})'])


def test_mappings_that_cannot_be_are_refused() -> None:
    with pytest.raises(LoadError, match="type vrf_t: 'red' is 16, which 4 bits do not hold"):
        names(red=16)
    with pytest.raises(LoadError, match="type vrf_t: 'red' and 'blue' are both 3"):
        names(red=3, blue=3)
