# SPDX-License-Identifier: Apache-2.0
"""TraceQL over torchspan's spans."""

SERVICES = 'resource.service.name =~ "$service"'
"""The chosen services."""
SERVICE = "resource.service.name"
FAILED = "status = error"


def key(attribute):
    """How TraceQL names an attribute of a span."""
    return f"span.{attribute}"


def spans(phase, *conditions):
    """The spans of a phase, of the chosen services, for which the conditions hold."""
    held = " && ".join((SERVICES, f'name = "{phase.name}"', *conditions))
    return f"{{ {held} }}"


def shown(*attributes):
    """The stage that shows attributes alongside the spans found."""
    return f"| select({', '.join(map(key, attributes))})"


def counted(by):
    """The stage that counts spans over time. by: rows of the table of attributes, or keys with their scope."""
    return f"| count_over_time() {_by(by)}"


def quantile(share, by):
    """The stage that computes a quantile of the durations of spans over time. share: 0 to 1, or a variable."""
    return f"| quantile_over_time(duration, {share}) {_by(by)}"


def _by(keys):
    return f"by ({', '.join(each if each == SERVICE else key(each) for each in keys)})"
