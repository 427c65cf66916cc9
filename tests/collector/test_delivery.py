# SPDX-License-Identifier: Apache-2.0
"""What `base.yaml` does while the backend is down, slow or refuses, and when the Collector itself ends."""

import urllib.error

import pytest

from support import backends, otlp, scraped
from support.receiver import Receiver

pytestmark = [pytest.mark.needs("otelcol-torchspan"), pytest.mark.slow]

ACCEPTED, SENT, FAILED = (
    f"otelcol_{name}_spans" for name in ("receiver_accepted", "exporter_sent", "exporter_send_failed")
)
QUEUED = "otelcol_exporter_queue_size"
RETRYING = {
    "exporters": {"otlp_http/backend": {"retry_on_failure": {"initial_interval": "100ms", "max_interval": "200ms"}}}
}
"""Over base.yaml, so that the tests need not wait for its pauses."""


def traces(count, seed=1):
    made = otlp.Ids(seed)
    return [[otlp.make_span(made, "torch_tensorrt.compile", made.trace())] for _ in range(count)]


def start(url, *layers, data=None, **environment):
    return backends.collector(
        "base.yaml", RETRYING, *layers, environment={"TORCHSPAN_OTLP_ENDPOINT": url, **environment}, data=data
    )


def sent_one_by_one(collector, made):
    for spans in made:
        otlp.send(collector.http, spans)


def counts(collector, condition):
    return scraped.wait_for(collector.own_metrics, condition)


def span_ids(made):
    return sorted(span.span_id.hex() for spans in made for span in spans)


def arrived(backend):
    return sorted(span.span_id for span in backend.spans())


def a_free_port():
    with Receiver() as receiver:
        return receiver.port


def test_what_is_sent_while_the_backend_is_down_arrives_when_it_is_up():
    port, made = a_free_port(), traces(20)
    with start(f"http://127.0.0.1:{port}") as collector:
        sent_one_by_one(collector, made)
        counts(collector, lambda found: scraped.total(found, ACCEPTED) == 20)
        with Receiver(port=port) as backend:
            backend.wait_for(lambda receiver: len(receiver.spans()) == 20)
            counts(collector, lambda found: scraped.total(found, SENT) == 20)
            assert arrived(backend) == span_ids(made)


def test_a_backend_that_restarts_gets_everything_once():
    port, made = a_free_port(), traces(30)
    with start(f"http://127.0.0.1:{port}") as collector:
        before = Receiver(port=port)
        sent_one_by_one(collector, made[:10])
        before.wait_for(lambda receiver: len(receiver.spans()) == 10)
        counts(collector, lambda found: scraped.total(found, SENT) == 10)
        before.stop()
        sent_one_by_one(collector, made[10:20])
        with Receiver(port=port) as after:
            sent_one_by_one(collector, made[20:])
            after.wait_for(lambda receiver: len(receiver.spans()) == 20)
            assert sorted(arrived(before) + arrived(after)) == span_ids(made)


def test_a_backend_that_is_slow_holds_no_program_up():
    made = traces(20)
    with Receiver(answers=False) as backend, start(backend.url) as collector:
        sent_one_by_one(collector, made)  # each is answered, though the backend answers none
        counts(collector, lambda found: scraped.total(found, ACCEPTED) == 20)
        backend.wait_for(lambda receiver: receiver.requests > 0)
        assert scraped.total(scraped.read(collector.own_metrics), SENT) == 0
        collector.kill()  # asked to end, it would wait for the answer


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_backend_that_is_overloaded_is_tried_again(status):
    made = traces(5)
    with Receiver(status=status) as backend, start(backend.url) as collector:
        sent_one_by_one(collector, made)
        otlp.wait_until(lambda: backend.refused >= 3)
        backend.status = 200
        backend.wait_for(lambda receiver: len(receiver.spans()) == 5)
        own = counts(collector, lambda found: scraped.total(found, SENT) == 5)
        assert scraped.total(own, FAILED) == 0
        assert arrived(backend) == span_ids(made)


@pytest.mark.parametrize("status", [400, 401, 404, 413])
def test_what_a_backend_refuses_for_good_is_counted_and_the_log_says_why(status):
    with Receiver(status=status) as backend, start(backend.url) as collector:
        sent_one_by_one(collector, traces(3))
        own = counts(collector, lambda found: scraped.total(found, FAILED) == 3)
        assert scraped.total(own, SENT) == 0
        log = "\n".join(collector.complaints())
        assert "Dropping data" in log
        assert f"HTTP Status Code {status}" in log


def test_what_does_not_fit_the_queue_is_refused_and_counted():
    queue = {"sizer": "requests", "queue_size": 2, "batch": {"sizer": "items"}}
    small = {"exporters": {"otlp_http/backend": {"sending_queue": queue}}}
    with Receiver(status=503) as backend, start(backend.url, small) as collector:
        answers = [status_of(collector, spans) for spans in traces(40)]
        refused = answers.count(503)  # an SDK tries again, and counts what it drops in the end
        assert answers.count(200) == 40 - refused
        assert refused > 0
        own = scraped.read(collector.own_metrics)
        assert scraped.total(own, "otelcol_exporter_enqueue_failed_spans") == refused
        assert scraped.total(own, ACCEPTED) == 40 - refused
        backend.status = 200
        backend.wait_for(lambda receiver: len(receiver.spans()) == 40 - refused)


def test_the_queue_has_room_for_as_many_spans_as_a_variable_says_however_they_are_sent(tmp_path):
    """Tail sampling hands each trace to the queue by itself: a limit on requests would be reached by a thousand traces."""
    sampling = ("sampling.yaml", {"exporters": {"otlp_http/backend": {"sending_queue": {"batch": {"min_size": 1}}}}})
    variables = {"TORCHSPAN_QUEUE_SPANS": "1500", "TORCHSPAN_DECISION_WAIT": "1s", "TORCHSPAN_KEEP_PERCENT": "100"}
    with Receiver(status=503) as backend:
        with start(backend.url, *sampling, data=tmp_path, **variables) as collector:
            sent = [span for spans in traces(1400, seed=9) for span in spans]
            otlp.send(collector.http, sent)
            own = counts(collector, lambda found: scraped.total(found, QUEUED) >= 1300)
            assert scraped.total(own, "otelcol_exporter_queue_capacity") == 1500
            assert scraped.total(own, "otelcol_exporter_enqueue_failed_spans") == 0
            otlp.send(collector.http, [span for spans in traces(400, seed=10) for span in spans])
            counts(collector, lambda found: scraped.total(found, "otelcol_exporter_enqueue_failed_spans") > 0)
            collector.kill()
        backend.status = 200
        with start(backend.url, *sampling, data=tmp_path, **variables) as collector:
            backend.wait_for(lambda receiver: set(arrived(receiver)) >= {span.span_id.hex() for span in sent})


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_what_was_accepted_survives_the_end_of_the_collector(end, tmp_path):
    made = traces(50)
    with Receiver(status=503) as backend:
        with start(backend.url, data=tmp_path) as collector:
            sent_one_by_one(collector, made)
            getattr(collector, end)()
        backend.status = 200
        with start(backend.url, data=tmp_path) as collector:
            backend.wait_for(lambda receiver: len(receiver.spans()) >= 50)
            counts(collector, lambda found: scraped.total(found, QUEUED) == 0)
        assert arrived(backend) == span_ids(made)


def test_a_collector_that_is_killed_again_and_again_loses_nothing_that_it_accepted(tmp_path):
    accepted = []
    with Receiver(status=503) as backend:
        for round_ in range(5):
            made = traces(20, seed=100 + round_)
            with start(backend.url, data=tmp_path) as collector:
                sent_one_by_one(collector, made)
                accepted += made
                collector.kill()
        backend.status = 200
        with start(backend.url, data=tmp_path) as collector:
            backend.wait_for(lambda receiver: set(arrived(receiver)) >= set(span_ids(accepted)))
            assert set(arrived(backend)) == set(span_ids(accepted))


def test_memory_that_runs_out_is_refused_to_programs_and_counted():
    with Receiver(status=503) as backend, start(backend.url, TORCHSPAN_MEMORY_MIB="1") as collector:
        made = otlp.Ids(7)
        large = [otlp.make_span(made, "x", made.trace(), attributes={"text": "x" * 60_000}) for _ in range(60)]
        otlp.wait_until(lambda: status_of(collector, large) == 503)
        own = scraped.read(collector.own_metrics)
        assert scraped.total(own, "otelcol_receiver_refused_spans") == len(large)


def status_of(collector, spans):
    """What the Collector answers."""
    try:
        return otlp.send(collector.http, spans)
    except urllib.error.HTTPError as error:
        return error.code
