# SPDX-License-Identifier: Apache-2.0
"""Sentences of plain English: from docstrings in the standard library's source, in a fixed order."""

import ast
import random
import re
import sysconfig
from pathlib import Path

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


_OF_ROWS = re.compile(r"\barguments?\b")
"""Rows differ in this word alone (`takes 1 argument`, `takes 2 arguments`): with it, a sentence in a hole looks like another row."""


def _sources(module):
    path = Path(sysconfig.get_path("stdlib"), *module.split("."))
    return sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def _docstrings(source):
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def _sentences():
    texts = {text for module in MODULES for source in _sources(module) for text in _docstrings(source)}
    sentences = {" ".join(match[0].split()) for text in texts for match in _SENTENCE.finditer(text)}
    return sorted(sentence for sentence in sentences if not _OF_ROWS.search(sentence))


ALL = _sentences()
SENTENCES = (PATIENT, *random.Random(27).sample(ALL, COUNT - 1))
"""500 sentences."""
WORDS = sorted({word for sentence in ALL for word in re.findall(r"[A-Za-z']+", sentence)})
"""The words of all sentences that there are."""
