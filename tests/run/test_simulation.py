"""Real nodes in a pretended world: every seed must come to rest with nothing lost, repeated or left over."""

import pytest

from tests.run.world import Weather, World

STORM = Weather(reorder=True, repeat=0.1, kills=4, cancel=0.15, stall=0.5, fail=0.05, deadline_ms=100, requests=25)
WEATHERS = {
    "calm": Weather(),
    "reordering": Weather(reorder=True, repeat=0.2),
    "slow clients": Weather(stall=0.9),
    "cancels": Weather(cancel=0.5, reorder=True),
    "deadlines": Weather(deadline_ms=60, stall=0.5),
    "kills": Weather(kills=6),
    "failing engines": Weather(fail=0.5, reorder=True),
    "storm": STORM,
}


@pytest.mark.parametrize("weather", WEATHERS.values(), ids=WEATHERS)
@pytest.mark.parametrize("seed", range(8))
def test_every_request_ends_once_and_nothing_is_left(seed: int, weather: Weather) -> None:
    World(seed, weather).run()


def test_calm_weather_serves_everyone() -> None:
    world = World(1, WEATHERS["calm"])
    world.run()
    assert all(client.done for client in world.clients.values())


def test_the_storm_is_one() -> None:
    """A simulation in which nothing happens proves nothing."""
    ends: set[str] = set()
    for seed in range(8):
        world = World(seed, STORM)
        world.run()
        for client in world.clients.values():
            ends.add("done" if client.done else "cancelled" if client.cancelled else str(client.code))
    assert ends == {"done", "cancelled", "deadline", "replica_lost", "engine"}


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_storms(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        World(seed, STORM).run()
