"""Prefill and decode apart, and pools side by side: who finds whom, by which name."""

from accord.terms.fleet_plan import Role
from accord.terms.gang import Scope, Together
from tests.render import small
from tests.render.drive import PLANS, documents, made, of_sort, pod_of, rendered
from tests.render.small import part


def split(**more):
    """Two prefill replicas and a decode replica of one stage."""
    made = small.plan(part("prefill", replicas=2), part("decode"), engine="sglang", **more)
    pools = tuple(small.replaced(pool, role=Role(pool.name)) for pool in made.pools)
    return small.replaced(made, pools=pools)


def test_a_router_calls_each_replica_by_the_name_that_its_set_gives_it():
    found, _ = rendered(split())
    sets = {one["metadata"]["name"]: one["spec"] for one in of_sort(found, "LeaderWorkerSet")}
    assert {name: one["replicas"] for name, one in sets.items()} == {"p-prefill": 2, "p-decode": 1}
    assert all(one["leaderWorkerTemplate"]["size"] == 1 for one in sets.values())
    (router,) = of_sort(found, "Deployment")
    words = pod_of(router)["containers"][0]["command"]
    # pkg/controllers/leaderworkerset_controller.go: a group's leader is `<set>-<group>`, its Service `<set>`.
    hosts = [word.removeprefix("http://").partition(":")[0] for word in words if word.startswith("http://")]
    assert hosts == ["p-prefill-0.p-prefill", "p-prefill-1.p-prefill", "p-decode-0.p-decode"]


def test_no_service_selects_both_a_router_and_its_workers():
    found, _ = rendered(split())
    templates = [one["spec"]["template"] for one in of_sort(found, "Deployment")]
    templates += [one["spec"]["leaderWorkerTemplate"]["workerTemplate"] for one in of_sort(found, "LeaderWorkerSet")]
    pods = [template["metadata"]["labels"] for template in templates]
    for service in of_sort(found, "Service"):
        wanted = service["spec"]["selector"].items()
        assert sum(wanted <= pod.items() for pod in pods) == 1


def test_pools_behind_a_router_have_no_autoscaler():
    assert not of_sort(rendered(split(), replicas_max=9)[0], "HorizontalPodAutoscaler")


def test_pools_side_by_side_have_one_service_over_both():
    found, _ = rendered(small.plan(part("a"), part("b"), kind={"a": "h20", "b": "ascend-910b3"}))
    (both,) = [one for one in of_sort(found, "Service") if one["metadata"]["name"] == "p-decoder-all-http"]
    pods = [one["spec"]["template"]["metadata"]["labels"] for one in of_sort(found, "Deployment")]
    assert all(both["spec"]["selector"].items() <= pod.items() for pod in pods)
    assert both["spec"]["ports"] == [{"name": "http", "port": 80, "targetPort": "http"}]


def test_stages_find_each_other_before_they_are_ready():
    found = documents(made(next(path for path in PLANS if "omni" in path.stem)))
    words = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["command"]
        for one in of_sort(found, "Deployment")
    }
    address = words["voice-talker"][words["voice-talker"].index("--omni-master-address") + 1]
    (service,) = [one for one in of_sort(found, "Service") if one["metadata"]["name"] == address]
    assert service["spec"]["publishNotReadyAddresses"]
    assert service["spec"]["clusterIP"] == "None", "any port passes"
    assert service["spec"]["selector"]["app.kubernetes.io/component"] == "thinker"


def test_engines_are_told_their_memory_only_where_they_see_the_whole_device():
    together = Together(parts=("a", "b"), scope=Scope.CARD)
    parts = [part(name, share=0.5, memory_bytes=48 * small.GIB) for name in ("a", "b")]
    for kind, relations, told in (("h20", (), False), ("h20", (together,), True), ("mi300x", (together,), True)):
        found, _ = rendered(small.plan(*parts, relations=relations, kind=kind))
        words = [pod_of(one)["containers"][0]["command"] for one in of_sort(found, "Deployment")]
        assert all(("--gpu-memory-utilization" in some) == told for some in words)
