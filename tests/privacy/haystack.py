# SPDX-License-Identifier: Apache-2.0
"""Where canaries are looked for: in every string of what was exported, by its key, and in every byte, encoded or not."""

import base64
import json
import re
from typing import NamedTuple

from google.protobuf.json_format import MessageToDict

from privacy import places

CANARIES = {name: places.canary(name) for name in places.PLACES}
_BY_SURNAME = {each.surname: name for name, each in CANARIES.items()}
_SHARED = sorted({word for each in CANARIES.values() for word in each.others})
_WORD = re.compile(r"[a-z]{5,}")
LOCAL = "torchspan.local."
"""What the keys of whole texts begin with, in the file of a run."""


class Found(NamedTuple):
    """A string of what was exported. owner: the instrumentation scope, or the logger, that wrote it; None for resources."""

    owner: str
    key: str
    text: str


def strings(request):
    """Every string of a request of OTLP as JSON: traces, metrics or logs."""
    for kind in ("resourceSpans", "resourceMetrics", "resourceLogs"):
        for of_resource in request.get(kind, ()):
            yield from _attributes(None, of_resource.get("resource", {}))
            yield Found(None, "schema", of_resource.get("schemaUrl", ""))
            for of_scope in of_resource.get(kind.replace("resource", "scope"), ()):
                yield from _of_scope(of_scope)


def _of_scope(of_scope):
    scope = of_scope.get("scope", {})
    owner = scope.get("name", "")
    yield Found(owner, "scope.name", owner)
    yield from _attributes(owner, scope)
    for span in of_scope.get("spans", ()):
        yield Found(owner, "span.name", span.get("name", ""))
        yield Found(owner, "span.state", span.get("traceState", ""))
        yield Found(owner, "span.status", span.get("status", {}).get("message", ""))
        yield from _attributes(owner, span)
        for each in (*span.get("events", ()), *span.get("links", ())):
            yield Found(owner, "event.name", each.get("name", ""))
            yield Found(owner, "link.state", each.get("traceState", ""))
            yield from _attributes(owner, each)
    for metric in of_scope.get("metrics", ()):
        for key in ("name", "description", "unit"):
            yield Found(owner, f"metric.{key}", metric.get(key, ""))
        for data in metric.values():
            for point in data.get("dataPoints", ()) if isinstance(data, dict) else ():
                yield from _attributes(owner, point)
                for exemplar in point.get("exemplars", ()):
                    yield from _attributes(owner, {"attributes": exemplar.get("filteredAttributes", ())})
    for record in of_scope.get("logRecords", ()):
        yield Found(owner, "log.body", json.dumps(record.get("body", {})))
        yield Found(owner, "log.event_name", record.get("eventName", ""))
        # torchspan's own records have a name and the attributes of its span events; those of Python's logging have none.
        prefix = "" if record.get("eventName") else "log."
        yield from (each._replace(key=f"{prefix}{each.key}") for each in _attributes(owner, record))


def _attributes(owner, holder):
    for each in holder.get("attributes", ()):
        yield Found(owner, "attribute.key", each["key"])
        yield Found(owner, each["key"], json.dumps(each.get("value", {}), ensure_ascii=False))


def from_file(path):
    """The requests of a file of `torchspan run`."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def from_receiver(message):
    """A request that arrived, as the file would have it."""
    return MessageToDict(message)


def local_key(key):
    """The key of the attribute of which a key of the file has the whole text, on its span or on an event."""
    return re.sub(r"^events\.\d+\.", "", key.removeprefix(LOCAL))


def is_torchspans(found):
    """Whether torchspan wrote the string: on its spans, metrics and records, on resources, and its keys on those of others."""
    if found.owner is None or found.owner == "torchspan" or found.owner.startswith("torchspan."):
        return True
    return found.key.startswith(("torchspan", "torch_tensorrt.", "tensorrt.", "torch.", "log.otel"))


# --- words in texts ----------------------------------------------------------------------------------------------
def surnames(text):
    """The places whose own word is in the text."""
    text = text.lower()
    return {name for surname, name in _BY_SURNAME.items() if surname in text}


def shared(text):
    """The words of several places that are in the text."""
    text = text.lower()
    return {word for word in _SHARED if word in text}


def places_in(content):
    """The places whose own word is in the bytes: as it is, and encoded.

    Base64 at each of its three alignments, hexadecimal, percent and JSON escapes, two bytes a character.
    """
    runs = b"\n".join({*re.findall(rb"[A-Za-z0-9+/=%\\_-]{6,}", content), *_two_byte_runs(content)})
    text = runs.lower()
    return {name for name, needles in _NEEDLES.items() if any(each in (runs if is_exact else text) for each, is_exact in needles)}  # fmt: skip


def _two_byte_runs(content):
    return (each.replace(b"\0", b"") for each in re.findall(rb"(?:[A-Za-z]\0|\0[A-Za-z]){6,}", content))


def _needles(surname):
    """(what is looked for, whether capitals matter): the word, and encoded as it is usually spelled."""
    word = surname.encode()
    yield word, False
    for spelled in {word, word.upper(), word.capitalize()}:
        yield spelled.hex().encode(), False
        for escape in (b"%%%02x", b"\\u%04x", b"\\x%02x"):
            yield b"".join(escape % letter for letter in spelled), False
        for before in range(3):
            encoded = base64.b64encode(b"\0" * before + spelled)
            inner = encoded[(before * 8 + 5) // 6 : len(encoded) - 4 if encoded.endswith(b"=") else None]
            yield inner, True
            yield inner.replace(b"+", b"-").replace(b"/", b"_"), True


_NEEDLES = {name: tuple(dict.fromkeys(_needles(each.surname))) for name, each in CANARIES.items()}
