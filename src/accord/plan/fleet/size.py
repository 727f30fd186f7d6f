"""Sizes of requests, and sums and mixes of times: means with variances.

In: two percentiles, or parts of a sum. Out: `Size`, `Moments`. Invariant: sizes are log-normal, the usual fit for
lengths of prompts and answers; a variance is never negative.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from accord.terms.intent import Spread

Array = npt.NDArray[np.float64]

_Z99 = NormalDist().inv_cdf(0.99)
# Five points of a Gauss-Hermite rule for the normal distribution: exact for polynomials up to the ninth power.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A log-normal size: its mean, and the standard deviation of its logarithm."""

    mean: float
    sigma: float = 0.0

    @classmethod
    def of(cls, spread: Spread) -> "Size":
        """The size with these percentiles."""
        sigma = math.log(max(1.0, spread.p99 / spread.p50)) / _Z99
        return cls(mean=spread.p50 * math.exp(sigma * sigma / 2), sigma=sigma)

    def __mul__(self, factor: float) -> "Size":
        return Size(mean=self.mean * factor, sigma=self.sigma)

    @property
    def variance(self) -> float:
        """Of the size itself."""
        return self.mean**2 * math.expm1(self.sigma**2)

    def points(self) -> tuple[Array, Array]:
        """Five sizes and their weights, for means of functions of the size."""
        if self.sigma == 0.0:
            return np.array([self.mean]), np.array([1.0])
        return self.mean * np.exp(self.sigma * _NODES - self.sigma**2 / 2), _WEIGHTS

    def at(self, percentile: float) -> float:
        """The size at a percentile (0 to 100)."""
        if self.sigma == 0.0:
            return self.mean
        return self.mean * math.exp(self.sigma * NormalDist().inv_cdf(percentile / 100) - self.sigma**2 / 2)


def sum_of(parts: Iterable[tuple[float, Size]]) -> Size:
    """The sum of independent sizes, each of which is there with its share; the log-normal of its two moments."""
    mean = variance = 0.0
    for share, size in parts:
        mean += share * size.mean
        variance += share * (size.variance + size.mean**2) - (share * size.mean) ** 2
    if mean <= 0.0:
        return Size(mean=0.0)
    return Size(mean=mean, sigma=math.sqrt(math.log1p(max(0.0, variance) / mean**2)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Mean and variance of a time, as arrays over candidates."""

    mean: Array
    variance: Array

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(mean=self.mean + other.mean, variance=self.variance + other.variance)

    def times(self, factor: float) -> "Moments":
        """So many times as long."""
        return Moments(mean=self.mean * factor, variance=self.variance * factor**2)

    def times_size(self, size: Size) -> "Moments":
        """A time for each of so many units, units and times being independent; all units of a request take alike."""
        second = (size.variance + size.mean**2) * (self.variance + self.mean**2)
        mean = size.mean * self.mean
        return Moments(mean=mean, variance=np.maximum(0.0, second - mean**2))


NOTHING = Moments(mean=np.zeros(()), variance=np.zeros(()))


def mixed(parts: Iterable[tuple[Array | float, Moments]]) -> Moments:
    """Of a time that is drawn from one of these with its share; shares add up to 1."""
    mean, second = np.zeros(()), np.zeros(())
    for share, item in parts:
        mean = mean + share * item.mean
        second = second + share * (item.variance + item.mean**2)
    return Moments(mean=mean, variance=np.maximum(0.0, second - mean**2))
