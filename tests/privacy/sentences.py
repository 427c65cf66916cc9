# SPDX-License-Identifier: Apache-2.0
"""Sentences of plain English: from docstrings of the standard library, in a fixed order."""

import importlib
import inspect
import random
import re

MODULES = (
    "argparse", "ast", "asyncio", "bdb", "calendar", "cmd", "collections", "configparser", "contextlib", "csv", "datetime",
    "decimal", "difflib", "doctest", "email.message", "fractions", "functools", "gzip", "heapq", "http.client", "inspect",
    "ipaddress", "json", "logging", "mailbox", "multiprocessing", "optparse", "os", "pathlib", "pdb", "pickle", "random",
    "re", "sched", "selectors", "shelve", "shutil", "smtplib", "socket", "statistics", "string", "subprocess", "tarfile",
    "tempfile", "textwrap", "threading", "tokenize", "trace", "unittest", "urllib.request", "weakref", "zipfile",
)  # fmt: skip
COUNT = 500
PATIENT = "The patient has pain in the left hand and asks for help with the current loss of function."
_SENTENCE = re.compile(r"(?<![^.\s] )[A-Z][a-z]+(?:,?(?: |\n +)[a-z'()-]+){5,20}[.!?](?=\s|$)")


def _docstrings(holder, depth=2):
    for _, member in sorted(vars(holder).items()):
        documentation = getattr(member, "__doc__", None)
        if type(documentation) is str:
            yield documentation
        if inspect.isclass(member) and depth:
            yield from _docstrings(member, depth - 1)


def _sentences():
    modules = map(importlib.import_module, MODULES)
    texts = {text for module in modules for text in (module.__doc__ or "", *_docstrings(module))}
    return sorted({" ".join(match[0].split()) for text in texts for match in _SENTENCE.finditer(text)})


ALL = _sentences()
SENTENCES = (PATIENT, *random.Random(27).sample(ALL, COUNT - 1))
"""500 sentences."""
WORDS = sorted({word for sentence in ALL for word in re.findall(r"[A-Za-z']+", sentence)})
"""The words of all sentences that there are."""
