"""Waits and percentiles: held against closed answers of queueing theory, and against a simulation written out here."""

import heapq
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.plan.fleet.path import percentile
from accord.plan.fleet.queue import wait
from accord.plan.fleet.size import Moments, Size, mixed, sum_of
from accord.terms.intent import Spread


def _moments(mean: float, variance: float) -> Moments:
    return Moments(mean=np.asarray(mean), variance=np.asarray(variance))


@given(load=st.floats(0.01, 0.97), mean=st.floats(1e-3, 10))
def test_one_exponential_server_waits_as_in_every_textbook(load: float, mean: float) -> None:
    """M/M/1: a wait of rho / (mu - lambda), with the variance rho (2 - rho) / (mu - lambda)^2."""
    found = wait(np.asarray(load / mean), _moments(mean, mean**2), 1)
    rate, server = load / mean, 1 / mean
    assert float(found.mean) == pytest.approx(load / (server - rate))
    assert float(found.variance) == pytest.approx(load * (2 - load) / (server - rate) ** 2)


@given(load=st.floats(0.01, 0.97), mean=st.floats(1e-3, 10), squared=st.floats(0, 4))
def test_one_server_waits_by_pollaczek_and_khinchine(load: float, mean: float, squared: float) -> None:
    found = wait(np.asarray(load / mean), _moments(mean, squared * mean**2), 1)
    second = (1 + squared) * mean**2
    assert float(found.mean) == pytest.approx(load / mean * second / (2 * (1 - load)))


def _erlang_c(load: float, servers: int) -> float:
    offered = load * servers
    below = sum(offered**n / math.factorial(n) for n in range(servers))
    last = offered**servers / math.factorial(servers) / (1 - load)
    return last / (below + last)


@pytest.mark.parametrize("servers", [2, 4, 8, 32])
@pytest.mark.parametrize("load", [0.7, 0.9, 0.97])
def test_several_servers_wait_nearly_by_erlang(servers: int, load: float) -> None:
    """Sakasegawa's figure is within some percent where waits matter."""
    found = wait(np.asarray(load * servers), _moments(1.0, 1.0), servers)
    exact = _erlang_c(load, servers) / (servers * (1 - load))
    assert float(found.mean) == pytest.approx(exact, rel=0.18, abs=0.005)


def test_a_full_server_waits_for_ever() -> None:
    assert math.isinf(float(wait(np.asarray(1.0), _moments(1.0, 0.0), 1).mean))


def test_sizes_have_the_percentiles_that_they_were_given() -> None:
    size = Size.of(Spread(p50=900, p99=6000))
    drawn = np.random.default_rng(1).lognormal(math.log(900), math.log(6000 / 900) / 2.3263478740408408, 400_000)
    assert size.at(50) == pytest.approx(900)
    assert size.at(99) == pytest.approx(6000)
    assert size.mean == pytest.approx(drawn.mean(), rel=0.01)
    assert size.variance == pytest.approx(drawn.var(), rel=0.05)
    values, weights = size.points()
    assert float((values * weights).sum()) == pytest.approx(size.mean, rel=1e-4)


def test_sums_and_mixtures_are_those_of_drawn_ones() -> None:
    rng = np.random.default_rng(2)
    some, other = Size(mean=100.0, sigma=0.8), Size(mean=300.0, sigma=0.3)
    here = rng.random(400_000) < 0.25
    total = _draw(some, rng) + here * _draw(other, rng)
    summed = sum_of([(1.0, some), (0.25, other)])
    assert summed.mean == pytest.approx(total.mean(), rel=0.01)
    assert summed.variance == pytest.approx(total.var(), rel=0.03)
    either = np.where(here, _draw(other, rng), _draw(some, rng))
    blend = mixed([(0.25, _moments(other.mean, other.variance)), (0.75, _moments(some.mean, some.variance))])
    assert float(blend.mean) == pytest.approx(either.mean(), rel=0.01)
    assert float(blend.variance) == pytest.approx(either.var(), rel=0.03)
    for percent in (90, 95, 99):
        parts = [(0.25, _moments(other.mean, other.variance)), (0.75, _moments(some.mean, some.variance))]
        assert float(percentile(parts, percent)) == pytest.approx(np.percentile(either, percent), rel=0.02)


def _draw(size: Size, rng: np.random.Generator) -> np.ndarray:
    return rng.lognormal(math.log(size.mean) - size.sigma**2 / 2, size.sigma, 400_000)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.6), (3, 0.8)])
def test_tails_of_waits_and_services_are_those_of_a_simulation(servers: int, load: float) -> None:
    """First come, first served; services log-normal, as prompts are."""
    rng, size = random.Random(5), Size(mean=1.0, sigma=0.7)
    free, clock, times = [0.0] * servers, 0.0, []
    for _ in range(200_000):
        clock += rng.expovariate(load * servers)
        start = max(clock, heapq.heappop(free))
        end = start + rng.lognormvariate(-(size.sigma**2) / 2, size.sigma)
        heapq.heappush(free, end)
        times.append(end - clock)
    service = _moments(1.0, size.variance)
    whole = wait(np.asarray(load * servers), service, servers) + service
    assert float(whole.mean) == pytest.approx(np.mean(times), rel=0.05)
    # A median is bounded by the mean: unevenness must not make a plan look better.
    assert np.percentile(times, 50) <= float(percentile([(1.0, whole)], 50)) <= float(whole.mean) * 1.0001
    for percent in (90, 99):
        assert float(percentile([(1.0, whole)], percent)) == pytest.approx(np.percentile(times, percent), rel=0.15)
