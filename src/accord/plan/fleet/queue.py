"""Waiting in front of servers.

In: rates, service times, servers, as arrays. Out: `Moments` of the wait. Invariant: exact for M/M/1, and for the mean
of M/G/1 (Pollaczek and Khinchine); for more servers Sakasegawa's approximation of Erlang's C (Annals of the Institute
of Statistical Mathematics 29, 1977), times (1 + cv2) / 2 for services that aren't exponential (Lee and Longton, 1959).
A wait is infinite where the load isn't below 1; the wait of those who wait is taken as exponential.
"""

import numpy as np

from accord.plan.fleet.size import Array, Moments


def waiting_probability(load: Array, servers: Array | float) -> Array:
    """The part of arrivals that find all servers busy. `load` is a server's, 0 to 1."""
    return np.asarray(np.minimum(load, 1.0) ** (np.sqrt(2.0 * (np.asarray(servers) + 1.0)) - 1.0))


def wait(rate: Array, service: Moments, servers: Array | float) -> Moments:
    """The wait of a customer, `rate` of whom arrive a second at all servers together."""
    load = np.asarray(rate * service.mean / servers)
    probability = waiting_probability(load, servers)
    with np.errstate(divide="ignore", invalid="ignore"):
        squared = np.where(service.mean > 0, service.variance / service.mean**2, 0.0)
        waiting = service.mean * (1.0 + squared) / 2.0 / (servers * (1.0 - load))
        mean = np.where(load >= 1.0, np.inf, probability * waiting)
        variance = np.where(load >= 1.0, np.inf, 2.0 * probability * waiting**2 - mean**2)
    return Moments(mean=mean, variance=np.maximum(0.0, variance))
