# SPDX-License-Identifier: Apache-2.0
"""The text of the model: Python's own standard library as installed here, and nothing else.

The lists name files that CPython 3.11, 3.12 and 3.13 all have. Their contents differ a little
between versions, so prompts do too: compare only runs on one machine's text.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from incmoe.model.errors import ModelError

_TRAINING = """
_collections_abc _markupbase _pydecimal _pyio _strptime argparse ast base64 bdb bz2 cProfile cmd
code codecs codeop compileall configparser contextlib copy copyreg dataclasses datetime difflib
dis doctest enum filecmp fileinput fnmatch ftplib functools genericpath getopt gettext glob gzip
hashlib hmac imaplib inspect ipaddress linecache lzma mailbox mimetypes modulefinder ntpath
numbers operator optparse os pdb pickle pickletools pkgutil platform plistlib poplib posixpath
pprint profile pstats py_compile pyclbr pydoc quopri random reprlib rlcompleter runpy selectors
shutil site smtplib socket socketserver ssl statistics string subprocess symtable tabnanny
tarfile tempfile threading timeit tokenize trace traceback tracemalloc types typing uuid
warnings wave weakref webbrowser xml/dom/minidom asyncio/base_events asyncio/events
asyncio/futures asyncio/locks asyncio/queues asyncio/runners asyncio/selector_events
asyncio/sslproto asyncio/streams asyncio/subprocess asyncio/tasks asyncio/transports
asyncio/unix_events concurrent/futures/_base concurrent/futures/process collections/__init__
email/_header_value_parser email/_policybase email/contentmanager email/generator
email/headerregistry email/header email/message email/policy email/utils html/parser http/client
http/cookiejar http/cookies http/server importlib/_bootstrap importlib/_bootstrap_external
importlib/abc json/__init__ json/decoder logging/__init__ logging/config logging/handlers
multiprocessing/connection multiprocessing/context multiprocessing/managers multiprocessing/pool
multiprocessing/queues multiprocessing/synchronize multiprocessing/util unittest/case
unittest/loader unittest/main unittest/mock unittest/result unittest/suite urllib/parse
urllib/request wsgiref/handlers wsgiref/simple_server xml/sax/expatreader xml/sax/handler
xml/sax/saxutils xmlrpc/client xmlrpc/server zoneinfo/_zoneinfo
"""

_HELD_OUT = """
bisect calendar csv fractions graphlib heapq netrc queue sched shelve shlex textwrap zipapp
asyncio/staggered concurrent/futures/thread email/charset json/encoder tomllib/_parser
urllib/robotparser xml/etree/ElementTree
"""

_TOP_LEVEL = re.compile(r"^(?:class|def) ", re.MULTILINE)


def training_files() -> list[Path]:
    """The files that the model learns from, in sorted order."""
    return _files(_TRAINING)


def held_out_files() -> list[Path]:
    """The files that the model never saw, in sorted order."""
    return _files(_HELD_OUT)


def read(files: Sequence[Path]) -> list[str]:
    """The text of each file; raises ModelError when this Python came without one."""
    try:
        return [file.read_text(encoding="utf-8") for file in files]
    except OSError as error:
        raise ModelError(
            f"the standard library here lacks {error.filename}: {error.strerror}"
        ) from error


def excerpts(min_characters: int) -> Iterator[str]:
    """Held-out text, each from the top of a class or function on; one per file in turn, then again.

    Every excerpt has at least min_characters characters and runs to the end of its file.
    """
    texts = read(held_out_files())
    starts = [
        [m.start() for m in _TOP_LEVEL.finditer(text) if len(text) - m.start() >= min_characters]
        for text in texts
    ]
    for turn in range(max(map(len, starts), default=0)):
        for text, places in zip(texts, starts, strict=True):
            if turn < len(places):
                yield text[places[turn] :]


def _files(names: str) -> list[Path]:
    root = Path(sysconfig.get_path("stdlib"))
    return [root / f"{name}.py" for name in sorted(names.split())]
