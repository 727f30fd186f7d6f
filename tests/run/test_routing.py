"""Routes: the edges of a request against an oracle that tries every set of edges, and the choice of replicas."""

from collections import Counter
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.run.routing import DOOR_NODE, Router, active_edges
from accord.terms.errors import BadInput
from accord.terms.graph import DOOR, Batching, Capability, Edge, Payload, Stage, StageGraph
from tests.fake_plans import chain_graph

EDGES_MAX = 8


def _stage(name: str) -> Stage:
    return Stage(name=name, capabilities=(Capability.PREPROCESS,), batching=Batching.PLAIN)


@st.composite
def graphs(draw: st.DrawFn) -> StageGraph:
    """Up to four stages, whose edges lead from the door through earlier stages to later ones and back."""
    names = ["a", "b", "c", "d"][: draw(st.integers(1, 4))]
    pairs = [(s, t) for n, s in enumerate([DOOR, *names]) for t in [*names, DOOR][n:] if (s, t) != (DOOR, DOOR)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1, max_size=EDGES_MAX))
    must = draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen)))
    return StageGraph(
        model="random",
        stages=tuple(map(_stage, names)),
        edges=tuple(
            Edge(name=f"{s}>{t}", source=s, target=t, payload=Payload.TEXT, required=required and t != DOOR)
            for (s, t), required in zip(chosen, must, strict=True)
        ),
    )


def _runs(graph: StageGraph, edges: set[str], inputs: frozenset[str], outputs: frozenset[str]) -> bool:
    """Whether these edges alone make a request that runs: no stage without its inputs, none for nothing."""
    used = [edge for edge in graph.edges if edge.name in edges]
    if any(edge.source == DOOR and edge.name not in inputs for edge in used):
        return False
    if any(edge.target == DOOR and edge.name not in outputs for edge in used):
        return False
    for stage in {end for edge in used for end in (edge.source, edge.target)} - {DOOR}:
        fed = any(edge.target == stage for edge in used)
        needed = any(edge.source == stage for edge in used)
        lacking = any(edge.target == stage and edge.required and edge.name not in edges for edge in graph.edges)
        if not fed or not needed or lacking:
            return False
    return True


def _oracle(graph: StageGraph, inputs: frozenset[str], outputs: frozenset[str]) -> set[str]:
    """The largest set of edges that runs: two sets that run also run together, so it is their union."""
    names = [edge.name for edge in graph.edges]
    subsets = chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))
    return {name for subset in subsets if _runs(graph, set(subset), inputs, outputs) for name in subset}


@given(graph=graphs(), data=st.data())
def test_active_edges_are_the_largest_set_that_runs(graph: StageGraph, data: st.DataObject) -> None:
    ways_in = [edge.name for edge in graph.edges if edge.source == DOOR]
    ways_out = [edge.name for edge in graph.edges if edge.target == DOOR]
    inputs = frozenset(data.draw(st.sets(st.sampled_from(ways_in)) if ways_in else st.just(set())))
    outputs = frozenset(data.draw(st.sets(st.sampled_from(ways_out)) if ways_out else st.just(set())))
    expected = _oracle(graph, inputs, outputs)
    if inputs | outputs <= expected:
        numbers = active_edges(graph, inputs, outputs)
        assert list(numbers) == sorted(numbers)
        assert {graph.edges[number].name for number in numbers} == expected
    else:
        with pytest.raises(BadInput) as refused:
            active_edges(graph, inputs, outputs)
        assert refused.value.field == ("inputs" if outputs <= expected else "outputs")


ALL = (0, 1, 2, 3)


def _router(*, sticky: bool = False, second: tuple[int, ...] = (20, 21, 22)) -> Router:
    router = Router(chain_graph(sticky=sticky))
    for stage, nodes in (("first", (10,)), ("second", second), ("third", (30, 31))):
        for node in nodes:
            router.add(stage, node)
    return router


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), max_size=80))
def test_the_least_loaded_replica_is_chosen(moves: list[int | None]) -> None:
    """None: a request comes; a number: one of those under way leaves. The books are kept here as well."""
    router = _router()
    under_way: list[tuple[int, int]] = []
    load: Counter[int] = Counter()
    for move in moves:
        if move is None:
            assert router.missing(ALL) is None
            route = router.assign(ALL, session=None)
            assert [hop.edge for hop in route] == list(ALL)
            assert [hop.consumer for hop in route[:-1]] == [hop.producer for hop in route[1:]]
            assert route[0].producer == route[-1].consumer == DOOR_NODE
            second, third = route[1].consumer, route[2].consumer
            assert load[second] == min(load[n] for n in (20, 21, 22))
            assert load[third] == min(load[n] for n in (30, 31))
            load.update((second, third))
            under_way.append((second, third))
        elif under_way:
            gone = under_way.pop(move % len(under_way))
            for node in gone:
                router.left(node)
            load.subtract(gone)
        assert all(router.load(node) == load[node] for node in (20, 21, 22, 30, 31))


def _homes(router: Router, sessions: range) -> dict[int, int]:
    return {number: router.assign(ALL, session=f"s{number}")[1].consumer for number in sessions}


@given(nodes=st.lists(st.integers(100, 10_000), unique=True, min_size=2, max_size=6), data=st.data())
def test_when_a_replica_leaves_or_comes_only_its_sessions_move(nodes: list[int], data: st.DataObject) -> None:
    sessions = range(60)
    router = _router(sticky=True, second=tuple(nodes))
    before = _homes(router, sessions)
    assert _homes(router, sessions) == before, "whatever the load"
    leaver = data.draw(st.sampled_from(nodes))
    data.draw(st.sampled_from((router.close, router.remove)))(leaver)
    after = _homes(router, sessions)
    assert leaver not in after.values()
    assert all(after[number] == home for number, home in before.items() if home != leaver)
    router.add("second", 99)
    again = _homes(router, sessions)
    assert all(again[number] in {home, 99} for number, home in after.items())


def test_sessions_spread_over_the_replicas() -> None:
    counts = Counter(_homes(_router(sticky=True, second=tuple(range(50, 54))), range(2000)).values())
    # 500 each on average; six standard deviations of a binomial count are 116.
    assert all(384 <= counts[node] <= 616 for node in range(50, 54)), counts


def test_a_stage_without_an_open_replica_is_missing() -> None:
    router = _router()
    router.close(30)
    assert router.missing(ALL) is None
    router.remove(31)
    assert router.missing(ALL) == "third"
    assert router.missing((0, 1)) is None
    assert router.knows(30)
    assert not router.knows(31)
    assert router.load(31) == 0
    router.left(31)
    router.add("third", 32)
    assert {router.assign(ALL, session=None)[2].consumer for _ in range(3)} == {32}
