"""Hard partitions: as many fit on a device as its vendor says (NVIDIA MIG user guide, H100 80 GB: seven 1g.10gb)."""

from accord.place.board import Board
from accord.place.gang import apply, decide
from accord.place.mix import mix_of
from accord.place.online import Scores
from accord.terms.fleet import Device, DeviceKind, Figure, Fleet, Node, Numa, Tag, Template, Vendor
from accord.terms.gang import Gang, Need, Part, Placement
from accord.terms.refusal import Refusal

_SLICE = Template(name="1g.10gb", memory_bytes=10 << 30, share=1 / 7, count_max=7)
_KIND = DeviceKind(
    name="h100",
    vendor=Vendor.NVIDIA,
    memory_bytes=Figure(value=80 << 30, tag=Tag.DATASHEET, source="NVIDIA H100 data sheet"),
    templates=(_SLICE,),
    soft_share=False,
)
_NODE = Node(name="n", numa=(Numa(cpus=8, memory_bytes=64 << 30),), devices=(Device(kind="h100"),))


def test_seven_slices_fit_on_one_device_and_an_eighth_does_not():
    board = Board(Fleet(kinds=(_KIND,), nodes=(_NODE,)))
    need = Need(share=0.1, memory_bytes=8 << 30)
    scores = Scores(board, mix_of([need]))
    for number in range(7):
        answer = decide(board, scores, Gang(name=f"g{number}", parts=(Part(name="p", need=need),)))
        assert isinstance(answer, Placement)
        assert answer.seats[0].template == "1g.10gb"
        apply(board, answer)
    assert isinstance(decide(board, scores, Gang(name="g7", parts=(Part(name="p", need=need),))), Refusal)
