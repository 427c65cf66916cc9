# SPDX-License-Identifier: Apache-2.0
"""The whole texts of messages in the user's own file, in place of what may leave."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torchspan.reading.traces import Span
from torchspan.words import semconv


def with_texts(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans with the whole texts in place of what exporters get of them, where the file has them."""
    for span in spans:
        if not span.texts:
            yield span
            continue
        texts = {key: text for key, text in span.texts.items() if not key.startswith(semconv.EVENT_TEXTS)}
        events = tuple(
            dataclasses.replace(
                event, attributes=event.attributes | _of_event(span.texts, semconv.event_text_key(index, ""))
            )
            for index, event in enumerate(span.events)
        )
        status = str(texts.get(semconv.BUILD_ERROR) or span.status_message)  # the same text: TensorRT raises nothing
        yield dataclasses.replace(span, attributes=span.attributes | texts, events=events, status_message=status)


def _of_event(texts: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): text for key, text in texts.items() if key.startswith(prefix)}
