# SPDX-License-Identifier: Apache-2.0
"""TraceQL over torchspan's spans."""

SERVICE = 'resource.service.name =~ "$service"'
"""The chosen services."""


def key(attribute):
    """How TraceQL names an attribute of a span."""
    return f"span.{attribute}"


def has(attribute):
    """The condition that a span has an attribute."""
    return f"{key(attribute)} != nil"


def spans(phase, *conditions):
    """The spans of a phase, of the chosen services, for which the conditions hold."""
    held = " && ".join((SERVICE, f'name = "{phase.name}"', *conditions))
    return f"{{ {held} }}"


def select(*attributes):
    """The stage that shows attributes beside the spans found."""
    return f"| select({', '.join(map(key, attributes))})"


def by(*attributes):
    """How a function over spans is split."""
    return f"by ({', '.join(map(key, attributes))})" if attributes else ""
