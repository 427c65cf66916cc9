# SPDX-License-Identifier: Apache-2.0
"""Finds phrases that plain English has a better word for, in every text of the repository.

`check_language.py [path …]`: all files, or those named. Each finding is a line `file:line: phrase -> what to write`. Status
1 if there is one. Underscores count as spaces, so names of functions and tests are read as well. A phrase is found across
the end of a line, too.
"""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = frozenset({".md", ".py", ".yml", ".yaml", ".toml", ".txt"})
DOT_FOLDERS = frozenset({".ci", ".github"})
MADE = frozenset({"__pycache__", "build", "dist", "shared"})
"""Folders without texts of the repository."""
LONGEST_TEST_NAME = 90
"""Characters of a test's name. It is a sentence, and a longer one is not read."""


@dataclass(frozen=True)
class Phrase:
    """A phrase to avoid. pattern: a regular expression over whole words, a space is any white space."""

    pattern: str
    instead: str


PHRASES = (
    # Actors that have a name
    Phrase("(?:no|some|any)body", "the actor: a callback, a caller, a backend; or 'nothing', 'no one'"),
    Phrase("whoever", "the actor: the program, the caller that …"),
    Phrase("(?:one )?of ours|ours", "torchspan's"),
    Phrase("of mine", "the owner's name"),
    # Callbacks, logs and reports
    Phrase("told", "reported, received, notified; a text: redacted; 'told from': distinguished from"),
    Phrase("tells? (?:of|from|apart)", "reports; distinguishes"),
    Phrase("(?:hears?|heard) of", "receives, is notified"),
    Phrase("listens? to (?:it|them|nothing|events?|phases?)", "is registered for"),
    Phrase("(?:says?|said) so", "what is said: 'reports it', 'is marked', 'the log names …'"),
    Phrase("without a word", "silently"),
    # State and time
    Phrase("(?:goes|go|went|going|gone) on", "continues, runs, lasts"),
    Phrase("switch(?:ed|es|ing)? (?:torchspan )?(?:on|off)", "enable, disable"),
    Phrase("bridge is (?:on|off)", "instrumentation is enabled, disabled"),
    Phrase("anew", "again"),
    Phrase("as ever", "as usual"),
    Phrase("for ever", "forever; or name the limit"),
    Phrase("in vain", "without success"),
    Phrase("at hand", "current, available"),
    Phrase("in its time", "when"),
    Phrase("put(?:s|ting)? back", "restore"),
    Phrase("lets? go|letting go", "release"),
    Phrase("(?:taken|comes?|came) along", "propagate, pass"),
    Phrase("(?:becomes?|became) of", "the outcome of, what happens to"),
    # Amounts and limits
    Phrase(
        "(?:had|finds?|found) (?:no|too little) room|(?:makes?|making) room",
        "dropped (limit), does not fit, was refused",
    ),
    Phrase("nothing but", "only"),
    Phrase("but for", "except for"),
    Phrase("names none", "is empty, is not set"),
    Phrase("(?:can|cannot|could|is|was|were|to)(?: not)? be(?:en)? had", "is available, is installed"),
    Phrase("the like", "'and similar', or the list"),
    # Negation and place
    Phrase(
        "(?<!there.)(?:is|are|was|were|be) no (?!longer|more|less|later|earlier|other|such|op)[a-z]+",
        "is not a …",
    ),
    Phrase("(?:is|are|was|were) not there", "is missing, does not exist"),
    Phrase("(?<!test-)beside", "next to, in addition to, alongside"),
    Phrase("in the place of", "in place of"),
    Phrase("look(?:s|ed|ing)? into", "look up, read"),
    Phrase("(?:is|are) about(?! to)", "concerns, describes"),
    # Words that are out of use
    Phrase("hence|thereby|thereof|wherein|whereof|therein|thereupon|whereby", "so, by it, in it"),
    Phrase("mend(?:s|ed|ing)?", "fix"),
    Phrase("giv(?:e|es|en|ing) way", "shrink, is shortened"),
    Phrase("spoil(?:s|ed|t)?", "change, break"),
    # Metaphors for terms of OpenTelemetry
    Phrase("passengers?|parcels?|lifelines?", "carrier, payload, liveness"),
    # Spelling
    Phrase(
        r"\w*(?:ecogni|nitiali|eriali|ormali|ummari|ptimi|peciali|rgani|inimi|aximi)s(?:e|ed|es|er|ers|ing|ation|ations)|"
        r"\w*(?:ehaviour|eighbour|colour|favour|honour)\w*|analys(?:e|ed|es|ing)|catalogues?|licence",
        "American spelling, as in PyTorch and OpenTelemetry",
    ),
)


EXCEPTIONS = {
    "tools/check_language.py": "the list itself",
    "collector-config/distribution/manifest.yaml": "the name of what is built from it is a digest of it",
    "tests/tools/test_check_language.py": "tests of the list",
}
"""Files that are not read, and why."""


_SPACE = r"\s+(?:#\s+)?"
"""Between two words; a comment continues with `#` on its next line."""


def _compiled(pattern):
    return re.compile(r"\b(?:" + pattern.replace(" ", _SPACE) + r")\b", re.IGNORECASE)


_COMPILED = tuple((_compiled(phrase.pattern), phrase) for phrase in PHRASES)
_ANY = _compiled("|".join(phrase.pattern for phrase in PHRASES))
"""Finds out in one pass that a text has none, as most have."""
_TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)


def findings(text):
    """What is to be written differently in a text: pairs of a line's number and a sentence, in their order."""
    found = []
    # Underscores separate words of a name. Offsets stay the same.
    words = text.replace("_", " ")
    for pattern, phrase in _COMPILED if _ANY.search(words) else ():
        for match in pattern.finditer(words):
            said = " ".join(each for each in match[0].split() if each != "#")
            found.append((words.count("\n", 0, match.start()) + 1, f"{said!r} -> {phrase.instead}"))
    for match in _TEST.finditer(text):
        if len(match[1]) > LONGEST_TEST_NAME:
            line = text.count("\n", 0, match.start(1)) + 1
            found.append((line, f"{match[1]} has {len(match[1])} characters -> at most {LONGEST_TEST_NAME}"))
    return sorted(found)


def files():
    """The texts of the repository. Folders with a dot are made by tools, except for those of CI and of issues."""
    found = []
    for folder, below, names in os.walk(ROOT):
        below[:] = sorted(each for each in below if each in DOT_FOLDERS or (each[0] != "." and each not in MADE))
        paths = (Path(folder, name) for name in sorted(names))
        found += [path for path in paths if path.suffix in SUFFIXES and _name(path) not in EXCEPTIONS]
    return found


def _name(path):
    return path.relative_to(ROOT).as_posix()


def main(arguments):
    """Print the findings in the files that are named, or in all. Returns the exit status."""
    named = [Path(each).resolve() for each in arguments]
    count = 0
    for path in files():
        if named and not any(path == each or each in path.parents for each in named):
            continue
        for line, what in findings(path.read_text(encoding="utf-8")):
            print(f"{_name(path)}:{line}: {what}", file=sys.stderr)
            count += 1
    if count:
        print(f"Phrases to replace: {count}. The list is in tools/check_language.py.", file=sys.stderr)
    return int(bool(count))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
