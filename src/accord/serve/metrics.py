"""What the door counts and measures, for Prometheus.

In: the story of each HTTP request (`Exchange`), and the service's own status at scrape time.
Out: the text of GET /metrics. Invariant: label values come from closed sets, so a client can't grow
the number of series.
"""

import time
from collections.abc import Callable, Iterator

from aiohttp.web import StreamResponse
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from accord.serve.problems import Outcome
from accord.terms.status import Activity, Health, ServiceStatus

_SECONDS = (
    0.01,
    0.025,
    0.05,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.6,
    0.8,
    1.0,
    1.5,
    2.0,
    3.0,
    5.0,
    8.0,
    13.0,
    30.0,
    60.0,
    120.0,
)


class Exchange:
    """One HTTP request as it unfolds; times are seconds since its arrival, None until they happen.

    `answer` is the streamed response once its head has been sent: after that, no other can be given.
    """

    __slots__ = ("answer", "endpoint", "first_audio_s", "first_text_s", "outcome", "started_s")

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.started_s = time.monotonic()
        self.outcome: Outcome | None = None
        self.first_text_s: float | None = None
        self.first_audio_s: float | None = None
        self.answer: StreamResponse | None = None

    def saw(self, edge: str) -> None:
        """Output of this edge has come from the runtime."""
        if edge == "speech":
            if self.first_audio_s is None:
                self.first_audio_s = time.monotonic() - self.started_s
        elif self.first_text_s is None:
            self.first_text_s = time.monotonic() - self.started_s


class DoorMetrics:
    """A registry of its own: two doors in one process don't meet."""

    def __init__(self, status: Callable[[], ServiceStatus]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        label = ("endpoint",)
        self._requests = Counter(
            "accord_http_requests", "HTTP requests", ("endpoint", "outcome"), registry=self._registry
        )
        self._first_text = self._histogram("accord_time_to_first_text_seconds", "From arrival to the first text", label)
        self._first_audio = self._histogram(
            "accord_time_to_first_audio_seconds", "From arrival to the first sound", label
        )
        self._latency = self._histogram(
            "accord_request_latency_seconds", "From arrival to the end, if it ended well", label
        )
        self._registry.register(_StatusCollector(status))

    def _histogram(self, name: str, text: str, labels: tuple[str, ...]) -> Histogram:
        return Histogram(name, text, labels, buckets=_SECONDS, registry=self._registry)

    def observe(self, exchange: Exchange) -> None:
        """Counts one request that has ended."""
        outcome = exchange.outcome or Outcome.OK
        self._requests.labels(exchange.endpoint, outcome.value).inc()
        if exchange.first_text_s is not None:
            self._first_text.labels(exchange.endpoint).observe(exchange.first_text_s)
        if exchange.first_audio_s is not None:
            self._first_audio.labels(exchange.endpoint).observe(exchange.first_audio_s)
        if outcome is Outcome.OK:
            self._latency.labels(exchange.endpoint).observe(time.monotonic() - exchange.started_s)

    def page(self, accept: str) -> tuple[bytes, str]:
        """The text and its Content-Type, in the format that the scraper accepts."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _StatusCollector(Collector):
    """The runtime's own figures, read once a scrape."""

    def __init__(self, status: Callable[[], ServiceStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield GaugeMetricFamily("accord_ready", "1 once every stage has a ready replica", value=float(status.ready))
        yield GaugeMetricFamily("accord_uptime_seconds", "Since the service started", value=status.uptime_s)
        yield from _requests(status)
        yield from _replicas(status)
        yield from _objectives(status)


def _requests(status: ServiceStatus) -> Iterator[Metric]:
    totals = status.totals
    yield GaugeMetricFamily("accord_requests_active", "Requests inside the stages", value=totals.active)
    yield GaugeMetricFamily("accord_requests_queued", "Requests waiting for admission", value=totals.queued)
    ended = CounterMetricFamily("accord_requests", "Requests to the runtime by how they ended", labels=("end",))
    for end, count in (
        ("done", totals.done),
        ("failed", totals.failed),
        ("cancelled", totals.cancelled),
        ("refused", totals.refused),
    ):
        ended.add_metric((end,), count)
    yield ended
    yield CounterMetricFamily("accord_requests_submitted", "Requests submitted to the runtime", value=totals.submitted)
    yield CounterMetricFamily(
        "accord_requests_replayed", "Requests replayed after a replica died", value=totals.replayed
    )


def _replicas(status: ServiceStatus) -> Iterator[Metric]:
    labels = ("stage", "replica")
    spent = CounterMetricFamily(
        "accord_replica_time_seconds", "Where each replica's time went", labels=(*labels, "activity")
    )
    restarts = CounterMetricFamily("accord_replica_restarts", "Restarts", labels=labels)
    served = CounterMetricFamily("accord_replica_served", "Requests served", labels=labels)
    active = GaugeMetricFamily("accord_replica_active", "Requests inside", labels=labels)
    ready = GaugeMetricFamily("accord_replica_ready", "1 if it takes requests", labels=labels)
    memory = GaugeMetricFamily("accord_replica_memory_bytes", "Resident memory", labels=labels)
    used = GaugeMetricFamily("accord_arena_used_bytes", "Arena bytes under lease", labels=labels)
    size = GaugeMetricFamily("accord_arena_bytes", "Arena size", labels=labels)
    for replica in status.replicas:
        key = (replica.stage, str(replica.replica))
        for activity, seconds in zip(Activity, replica.time_s, strict=False):
            spent.add_metric((*key, activity.value), seconds)
        restarts.add_metric(key, replica.restarts)
        served.add_metric(key, replica.served)
        active.add_metric(key, replica.active)
        ready.add_metric(key, float(replica.health is Health.READY))
        memory.add_metric(key, replica.memory_bytes)
        used.add_metric(key, replica.arena_used_bytes)
        size.add_metric(key, replica.arena_bytes)
    yield from (spent, restarts, served, active, ready, memory, used, size)


def _objectives(status: ServiceStatus) -> Iterator[Metric]:
    labels = ("metric", "percentile")
    bound = GaugeMetricFamily("accord_objective_bound", "What is wanted (seconds; a ratio for rtf)", labels=labels)
    measured = GaugeMetricFamily(
        "accord_objective_measured", "What was measured, once there is a sample", labels=labels
    )
    for item in status.objectives:
        key = (item.objective.metric.value, f"{item.objective.percentile:g}")
        bound.add_metric(key, item.objective.bound)
        if item.measured is not None:
            measured.add_metric(key, item.measured)
    yield from (bound, measured)
