# SPDX-License-Identifier: Apache-2.0
"""What stops a packet: something undefined the program did, or an error its parser met."""


class Fault(Exception):  # noqa: N818
    """The program did something undefined; the packet is dropped and the fault counted by name."""


class ParserError(Exception):
    """Parsing ends here; the code goes to standard_metadata.parser_error."""

    def __init__(self, code: int) -> None:
        super().__init__(f"parser error {code}")
        self.code = code
