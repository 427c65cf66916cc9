# SPDX-License-Identifier: Apache-2.0
"""Programs and servers that start processes, and what arrives of them."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.receiver import GrpcReceiver, Receiver

HERE = Path(__file__).resolve().parent
INSTRUMENT = str(Path(sys.executable).with_name("opentelemetry-instrument"))
DEADLINE_S = 120
COMPILE = "torch_tensorrt.compile.duration"


def receiver_of(protocol):
    return GrpcReceiver() if protocol == "grpc" else Receiver()


class Program:
    """A program that has ended: what it printed as JSON in its last line, its spans, and its metrics."""

    def __init__(self, command, environment, receiver):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        self.reported = json.loads(done.stdout.splitlines()[-1])
        self.arrived = receiver


class Server:
    """A server with workers, until `stop`. `log`: a file with what it prints."""

    def __init__(self, command, environment, log):
        self._log = log
        with log.open("w") as output:
            self._process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent
            )
        self._address = self._wait_for(re.compile(r"http://127\.0\.0\.1:\d+"))[0]

    def _wait_for(self, pattern):
        deadline = time.monotonic() + DEADLINE_S
        while (found := pattern.search(self.log())) is None:
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)
        return found

    def log(self):
        return self._log.read_text()

    def ask(self, number):
        """The answer to a request of trace `number`, as JSON."""
        request = urllib.request.Request(self._address, headers={"traceparent": f"00-{number:032x}-{number:016x}-01"})
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                    return json.load(answer)
            except urllib.error.URLError as error:  # uvicorn names its address before a worker listens
                if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def ask_until_all_have_answered(self, workers):
        """As many requests at a time, until as many processes have answered. Returns the answers in the order of the requests."""
        answers, deadline = [], time.monotonic() + DEADLINE_S
        with ThreadPoolExecutor(workers) as clients:
            while len({each["pid"] for each in answers}) < workers:
                assert time.monotonic() < deadline, self.log()
                answers += clients.map(self.ask, range(len(answers) + 1, len(answers) + 1 + workers))
        return answers

    def stop(self):
        """SIGTERM, as a container's end sends it. Returns the exit status."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(DEADLINE_S)


def by_process(spans):
    """Names of the resources' processes -> the models of their compilations, and how many each."""
    found = {}
    for span in spans:
        if span.name == "torch_tensorrt.compile":
            of_process = found.setdefault(span.resource["service.instance.id"], Counter())
            of_process[span.attributes["torch.model.class"]] += 1
    return found


def measured(receiver):
    """Processes -> how many compilations their metrics count in all that was exported of them."""
    cumulative, delta = {}, Counter()
    for request in receiver.metrics():
        for of_resource in request.resource_metrics:
            (process,) = [
                each.value.string_value for each in of_resource.resource.attributes if each.key == "service.instance.id"
            ]
            for metric in (metric for scope in of_resource.scope_metrics for metric in scope.metrics):
                if metric.name == COMPILE:
                    count = sum(point.count for point in metric.histogram.data_points)
                    is_delta = metric.histogram.aggregation_temporality == 1
                    cumulative[process] = max(cumulative.get(process, 0), 0 if is_delta else count)
                    delta[process] += count if is_delta else 0
    return {process: cumulative[process] + delta[process] for process in cumulative}
