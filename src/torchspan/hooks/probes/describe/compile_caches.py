# SPDX-License-Identifier: Apache-2.0
"""Lookups in the caches of torch.compile: the result, and what the key consists of.

AOTAutograd and Inductor report a lookup at the end of a phase (`autograd_cache.py` and `compile_fx.py` in torch 2.11 to 2.14). The parts of
the key are lines: `[hash] name: value`. Neither value nor hash leaves the process: the hash of a small value tells the value. What leaves is
a digest of it under a key of the user.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from torchspan.base import reading
from torchspan.hooks.probes.describe.common import without_none
from torchspan.words import semconv
from torchspan.words.redaction import messages
from torchspan.words.redaction.bounds import VALUE_LIMIT
from torchspan.words.redaction.messages import LibraryMessage

Facts = dict[str, Any]
Digest = Callable[[str], str]
"""Makes a digest of a text under the user's key."""


class Cache(NamedTuple):
    """The attributes of one cache.

    Attributes:
        phase: The phase whose end reports the lookup.
        found: The name of Dynamo's report of a hit.
    """

    phase: str
    found: str
    outcome: str
    key: str
    parts: str
    digests: str
    bypass: str
    saved: str

    def facts(self, report: Mapping[str, Any], digest: Digest) -> Facts:
        """The facts of a lookup.

        Args:
            report: What PyTorch adds to the end of the phase.
        """
        key, reason = (reading.text(report.get(name)) for name in ("key", "cache_bypass_reason"))
        state = reading.text(report.get("cache_state"))
        parts = dict(_bounded(key_parts(report.get("components")), digest))
        return without_none(
            {
                self.outcome: state,
                semconv.INDUCTOR_CACHE_DISABLING_VARIABLES: disabling_variables() if state == "disabled" else None,
                self.key: None if key is None else digest(key),
                self.parts: list(parts) or None,
                self.digests: list(parts.values()) or None,
                self.bypass: None if reason is None else _reason(reason),
            }
        )

    def attributes(self) -> tuple[str, ...]:
        """The attributes that a lookup may have."""
        own = (semconv.INDUCTOR_CACHE_DISABLING_VARIABLES,) if self.outcome == semconv.INDUCTOR_CACHE else ()
        return (self.outcome, self.key, self.parts, self.digests, self.bypass, self.saved, *own)

    def saving(self, report: Mapping[str, Any]) -> Facts:
        """The seconds that a hit saved: Inductor reports nanoseconds, AOTAutograd whole milliseconds."""
        for name, unit in (("time_saved_ns", 1e9), ("time_saved_ms", 1e3)):
            saved = report.get(name)
            if reading.exactly(saved, int, float):
                return {self.saved: float(saved or 0) / unit}
        return {}


CACHES = (
    Cache(
        "backend_compile",
        "autograd_cache_hit",
        semconv.AOTAUTOGRAD_CACHE,
        semconv.AOTAUTOGRAD_CACHE_KEY,
        semconv.AOTAUTOGRAD_CACHE_KEY_PARTS,
        semconv.AOTAUTOGRAD_CACHE_KEY_DIGESTS,
        semconv.AOTAUTOGRAD_CACHE_BYPASS_REASON,
        semconv.AOTAUTOGRAD_CACHE_SAVED,
    ),
    Cache(
        "inductor_compile",
        "fx_graph_cache_hit",
        semconv.INDUCTOR_CACHE,
        semconv.INDUCTOR_CACHE_KEY,
        semconv.INDUCTOR_CACHE_KEY_PARTS,
        semconv.INDUCTOR_CACHE_KEY_DIGESTS,
        semconv.INDUCTOR_CACHE_BYPASS_REASON,
        semconv.INDUCTOR_CACHE_SAVED,
    ),
)
"""The caches of torch.compile."""


def _reason(text: str) -> LibraryMessage:
    """Why a graph is not accepted: whole where it names what stands for a custom `torch.autograd.Function`, which is PyTorch's own."""
    is_whole = text.endswith("torch.ops.higher_order, \nFunction name: autograd_function_apply")
    return LibraryMessage(text, text) if is_whole else messages.of_text(text)


_DISABLING = {
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    "TORCH_COMPILE_FORCE_DISABLE_CACHES": "1",
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
}
"""Variables of the environment, with the value that disables Inductor's cache."""


def disabling_variables() -> list[str] | None:
    """Those that are set so; None if there is none."""
    return [name for name, value in _DISABLING.items() if os.environ.get(name) == value] or None


# --- the parts of a key ---------------------------------------------------------------------------------------------
PARTS_LIMIT = 64
"""Maximum number of parts of a key, of which the last is `OTHERS` if there are more."""

OTHERS = "others"
"""The name of the part that has all further parts."""

FAMILY_LIMIT = 16
"""Maximum number of parts with one name in front of the bracket that are listed one by one."""

_LINE = re.compile(r"\[([0-9a-z]{1,64})\] ([A-Za-z_]\w{0,63})(?:\[([^\]\n]{0,256})\])?: ", re.ASCII)
_MEMBER = re.compile(r"\w{1,64}(?:\.\w{1,64}){0,3}", re.ASCII)
_SETTINGS = {"inductor_config": "torch._inductor.config", "inductor_config_comms": "torch._inductor.config_comms"}
"""Families of settings, and their modules."""


def key_parts(lines: Any) -> dict[str, list[str]]:
    """Hashes by the name of their part, in PyTorch's order.

    A large family is grouped: `example_inputs[*]` has all inputs, and of Inductor's settings `inductor_config[triton.*]` has those of its
    namespace. A setting that the program or the environment has changed is a part of its own, behind the others.
    """
    families: dict[str, list[tuple[str | None, str]]] = {}
    for line in reading.entries(lines) or ():
        match = _LINE.match(line) if type(line) is str else None
        if match is not None:
            families.setdefault(match[2], []).append((match[3], match[1]))
    parts: dict[str, list[str]] = {}
    changed: dict[str, list[str]] = {}
    for family, members in families.items():
        is_large = len(members) > FAMILY_LIMIT
        own = set(changed_settings(family)) if is_large else set()
        for member, digest in members:
            name = _part(family, member, is_grouped=is_large and member not in own)
            (changed if member in own else parts).setdefault(name, []).append(digest)
    return {**parts, **changed}


def _part(family: str, member: str | None, *, is_grouped: bool) -> str:
    if member is None:
        return family
    is_plain = _MEMBER.fullmatch(member) is not None
    if is_plain and not is_grouped:
        return f"{family}[{member}]"
    namespace, dot, _ = member.partition(".")
    return f"{family}[{namespace}.*]" if dot and is_plain else f"{family}[*]"


def _bounded(parts: Mapping[str, list[str]], digest: Digest) -> Iterator[tuple[str, str]]:
    """The names and digests of the parts, as many as an attribute takes. The name is in the digest: equal values of two parts differ."""
    room = VALUE_LIMIT - len(OTHERS)
    texts = [(name, f"{name} {' '.join(hashes)}") for name, hashes in parts.items()]
    for number, (name, text) in enumerate(texts):
        room -= len(name)
        if room < 0 or (number == PARTS_LIMIT - 1 and len(texts) > PARTS_LIMIT):
            yield OTHERS, digest("\n".join(other for _, other in texts[number:]))
            return
        yield name, digest(text)


def changed_settings(family: str) -> Iterator[str]:
    """The settings that the program or an environment variable has changed, where PyTorch knows that (torch/utils/_config_module.py).

    Lists and other objects are not among them: comparing them could run the program's code.
    """
    settings = reading.instance_dict(sys.modules.get(_SETTINGS.get(family, ""))).get("_config")
    kind, unset = (reading.loaded("torch.utils._config_module", name) for name in ("_ConfigEntry", "_UNSET_SENTINEL"))
    for name, setting in reading.pairs(settings):
        if type(name) is str and type(setting) is kind:
            override = setting.user_override
            values = (
                override.get(None) if type(override) is ContextVar else override,
                setting.env_value_force,
                setting.env_value_default,
            )
            if any(value is not unset and _differs(value, setting.default) for value in values):
                yield name


def _differs(value: Any, default: Any) -> bool:
    """Whether two plain values differ. None stands for a value that is not known."""
    return value is not None and value is not default and reading.exactly(value, *_PLAIN) and value != _plain(default)


def _plain(value: Any) -> Any:
    return value if reading.exactly(value, *_PLAIN) else None


_PLAIN = (bool, int, float, str)
