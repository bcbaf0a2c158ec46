# SPDX-License-Identifier: Apache-2.0
"""Numbers for strings, without a switch."""

from __future__ import annotations

import pytest

from softswitch.errors import InvalidUpdate, LoadError, NotFound, ResourceExhausted
from softswitch.translation import FEW_STRINGS, StringNumbers, mappings


def names(bits: int = 4, **fixed: int) -> StringNumbers:
    return StringNumbers("vrf_t", bits, fixed)


def test_a_string_keeps_its_number_and_another_gets_another() -> None:
    known = names()
    first, second = (
        known.number(b"blue", "key", known.bits),
        known.number(b"green", "key", known.bits),
    )
    assert first != second
    assert (known.number(b"blue", "key", known.bits), known.known(b"green", "key", known.bits)) == (
        first,
        second,
    )
    assert (known.text(first), known.text(second)) == (b"blue", b"green")


def test_what_the_type_says_holds_and_decimal_numbers_are_themselves() -> None:
    known = StringNumbers("vrf_t", 4, {"": 0, "red": 7})
    assert (known.number(b"", "key", known.bits), known.number(b"red", "key", known.bits)) == (0, 7)
    assert (known.number(b"3", "key", known.bits), known.known(b"5", "key", known.bits)) == (3, 5)
    assert [known.text(number) for number in (0, 3, 7, 11)] == [b"", b"3", b"red", b"11"]


@pytest.mark.parametrize("text", [b"03", b"16", b"-1", b" 3", b"0x3", "\u0663".encode()])
def test_what_is_no_decimal_number_of_the_width_is_a_string(text: bytes) -> None:
    known = names()
    assert known.text(known.number(text, "key", known.bits)) == text
    assert known.number(text, "key", known.bits) not in (0, 3, 15)


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
    assert known.number(b"blue", "key", known.bits) == 14
    with pytest.raises(InvalidUpdate, match=reason):
        known.number(text, "key", known.bits)


def test_a_string_that_nobody_wrote_is_not_known() -> None:
    known = names(red=7)
    for text in (b"blue", b"7", b"16"):
        with pytest.raises(NotFound, match="no vrf_t is called"):
            known.known(text, "metadata", known.bits)
    assert known.known(b"red", "metadata", known.bits) == 7


def test_numbers_that_nothing_uses_are_given_to_others() -> None:
    known = names(bits=3, red=2)
    taken = {name: known.number(name.encode(), "key", known.bits) for name in "abcde"}
    assert sorted(taken.values()) == [1, 3, 4, 5, 6]
    with pytest.raises(ResourceExhausted, match="key: all 3-bit numbers of vrf_t are in use"):
        known.number(b"f", "key", known.bits)  # all are of the request that is being read
    known.begin(lambda: {taken["a"], taken["b"]})
    assert known.number(b"c", "key", known.bits) == taken["c"]
    assert known.number(b"f", "key", known.bits) in {taken["d"], taken["e"]}
    for name in "abc":
        assert known.known(name.encode(), "key", known.bits) == taken[name]
    assert known.known(b"red", "key", known.bits) == 2


def test_a_decimal_number_takes_that_of_a_string_that_nothing_uses() -> None:
    known = names()
    assert known.number(b"blue", "key", known.bits) == 14
    known.begin(tuple)
    assert (known.number(b"14", "key", known.bits), known.text(14)) == (14, b"14")


def test_of_two_types_each_has_the_decimal_numbers_of_its_width() -> None:
    known = StringNumbers("port_t or wide_t", 4, {}, widest=16)
    assert known.number(b"600", "key", 16) == 600
    name = known.number(b"blue", "key", 16)
    assert name < 16
    with pytest.raises(InvalidUpdate, match="key: '600' is 600, which 4 bits do not hold"):
        known.number(b"600", "key", 4)
    with pytest.raises(NotFound):
        known.known(b"600", "key", 4)


def test_ever_new_strings_do_not_pile_up() -> None:
    known = names(bits=32)
    for number in range(3 * FEW_STRINGS):
        known.begin(tuple)
        known.number(f"name {number}".encode(), "key", 32)
    assert len(known._texts) <= FEW_STRINGS + 1


def test_what_a_register_may_hold_is_kept() -> None:
    known = names()
    held = known.number(b"blue", "cell", 4)
    known.keep(held)
    for number in range(40):
        known.begin(tuple)
        known.number(f"name {number}".encode(), "key", 4)
    assert known.text(held) == b"blue"


def test_numbers_of_the_program_are_nobody_elses() -> None:
    known = names(red=7)
    known.reserve([14, 13, 7])
    assert known.number(b"blue", "key", known.bits) == 12
    assert [known.text(number) for number in (14, 13, 7)] == [b"14", b"13", b"red"]


def test_a_new_type_takes_over_what_is_used_or_says_why_not() -> None:
    old, new = StringNumbers("vrf_t", 4, {"": 0, "old": 3}), names()
    number = old.number(b"blue", "key", old.bits)
    new.adopt(old, [number, 0])
    assert (new.known(b"blue", "key", new.bits), new.number(b"", "key", new.bits)) == (number, 0)
    assert new.number(b"3", "key", new.bits) == 3
    for other in (names(bits=3), names(other=number), names(blue=number - 1)):
        with pytest.raises(InvalidUpdate, match=f"'blue' is the vrf_t {number} and cannot stay it"):
            other.adopt(old, [number])
        other.adopt(old, [])


def test_mappings_are_read_as_p4c_writes_them() -> None:
    text = '@p4runtime_translation_mappings({ { "" , 0 } , { "a \\"b\\"" , 16w0x1F } , })'
    assert mappings("vrf_t", ["@other", text]) == {"": 0, 'a "b"': 31}
    text = '@p4runtime_translation_mappings({{"a\\nb", 010}, {"c", 0d1_1}, {"d", 5s3}})'
    assert mappings("vrf_t", [text]) == {"a\nb": 10, "c": 11, "d": 3}


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ('{"x", MANY}', "type vrf_t: MANY is no number"),
        ('{"x", 1 + 2}', "type vrf_t: 1 . 2 is no number"),
        ('{"x", - 1}', "type vrf_t: - 1 is no number"),
        ('{"x", 1}, {"x", 2}', "type vrf_t: 'x' is there twice"),
        ("{x, 1}", "type vrf_t: no list of texts and numbers"),
    ],
)
def test_mappings_that_cannot_be_understood_are_refused(pairs: str, reason: str) -> None:
    with pytest.raises(LoadError, match=reason):
        mappings("vrf_t", ["@p4runtime_translation_mappings({" + pairs + "})"])


def test_mappings_that_cannot_be_are_refused() -> None:
    with pytest.raises(LoadError, match="type vrf_t: 'red' is 16, which 4 bits do not hold"):
        names(red=16)
    with pytest.raises(LoadError, match="type vrf_t: 'red' and 'blue' are both 3"):
        names(red=3, blue=3)
