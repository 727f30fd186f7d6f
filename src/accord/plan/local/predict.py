"""How long a request takes through stages of known speed, when nothing else runs.

In: a question, the chosen speed of each stage, a percentile. Out: seconds (a ratio for RTF).
Invariant: a slower stage never makes a prediction smaller. The time to a first output is the longest
path through the graph; after it, the stages work at once, so that the slowest one decides the end.
"""

from collections.abc import Mapping

from accord.plan.local.question import Kind, Question, amounts, kinds
from accord.terms.graph import DOOR, Payload, StageGraph
from accord.terms.intent import Metric, Objective
from accord.terms.speed import Quantity, StageSpeed

Speeds = Mapping[str, StageSpeed]
Amounts = Mapping[Quantity, float]


def predicted(question: Question, speeds: Speeds, objective: Objective) -> float:
    """What `objective.metric` will be at its percentile, in seconds (a ratio for RTF)."""
    metric = objective.metric
    speaking = metric in {Metric.FIRST_AUDIO, Metric.RTF}
    values = sorted(
        (_of_kind(question, speeds, kind, objective), kind.share) for kind in kinds(question.intent, speaking=speaking)
    )
    below = 0.0
    for value, share in values:
        below += share
        # Shares are products of fractions: a millionth forgives their rounding.
        if below >= objective.percentile / 100 - 1e-6:
            return value
    return values[-1][0]


def spent(question: Question, speeds: Speeds, objective: Objective) -> tuple[tuple[str, float], ...]:
    """Where the predicted time goes: stages with seconds, for the kind of request that decides it.

    For times to a first output these are the stages of the critical path; for whole answers, all work.
    """
    speaking = objective.metric in {Metric.FIRST_AUDIO, Metric.RTF}
    found = kinds(question.intent, speaking=speaking)
    target = predicted(question, speeds, objective)
    kind = min(found, key=lambda item: abs(_of_kind(question, speeds, item, objective) - target))
    match objective.metric:
        case Metric.TTFT | Metric.FIRST_AUDIO:
            firsts = _firsts(question, kind, objective)
            speech = objective.metric is Metric.FIRST_AUDIO
            return _path(question.model.graph, speeds, firsts, kind=kind, speech=speech)
        case Metric.TPOT:
            return tuple((stage, seconds) for stage, speed in speeds.items() if (seconds := token_s({stage: speed})))
        case Metric.LATENCY | Metric.RTF:
            whole = amounts(question, kind, percentile=_percentile(objective))
            return tuple((stage, busy_s(speed, whole)) for stage, speed in speeds.items())


def busy_s(speed: StageSpeed, work: Amounts, *, batch: int = 1) -> float:
    """How long a stage works on one request, when `batch` requests share its steps."""
    return sum(max(cost.shared_s, cost.alone_s / batch) * work[cost.quantity] for cost in speed.costs)


def token_s(speeds: Speeds, *, batch: int = 1) -> float:
    """Seconds between two tokens of one request, when `batch` requests share the steps."""
    costs = [cost for speed in speeds.values() for cost in speed.costs if cost.quantity is Quantity.OUTPUT_TOKEN]
    return max((max(cost.alone_s, cost.shared_s * batch) for cost in costs), default=0.0)


def _of_kind(question: Question, speeds: Speeds, kind: Kind, objective: Objective) -> float:
    match objective.metric:
        case Metric.TPOT:
            return token_s(speeds)
        case Metric.TTFT | Metric.FIRST_AUDIO:
            return _first_s(question, speeds, kind, objective)
        case Metric.LATENCY:
            return _latency_s(question, speeds, kind, objective)
        case Metric.RTF:
            audio_s = amounts(question, kind, percentile=50)[Quantity.AUDIO_OUT_S]
            return _latency_s(question, speeds, kind, objective) / audio_s


def _first_s(question: Question, speeds: Speeds, kind: Kind, objective: Objective) -> float:
    firsts = _firsts(question, kind, objective)
    speech = objective.metric is not Metric.TTFT and kind.audio_out
    return sum(seconds for _, seconds in _path(question.model.graph, speeds, firsts, kind=kind, speech=speech))


def _latency_s(question: Question, speeds: Speeds, kind: Kind, objective: Objective) -> float:
    whole = amounts(question, kind, percentile=_percentile(objective))
    firsts = _firsts(question, kind, objective)
    rest = max(busy_s(speed, whole) - busy_s(speed, firsts) for speed in speeds.values())
    return _first_s(question, speeds, kind, objective) + max(0.0, rest)


def _firsts(question: Question, kind: Kind, objective: Objective) -> Amounts:
    """The work before the first output: all of the input, one token, or one clause and its speech."""
    whole = dict(amounts(question, kind, percentile=_percentile(objective)))
    shape = question.model.shape
    speech = objective.metric is not Metric.TTFT and kind.audio_out
    tokens = min(shape.clause_tokens, whole[Quantity.OUTPUT_TOKEN]) if speech else 1.0
    whole[Quantity.OUTPUT_TOKEN] = tokens
    whole[Quantity.AUDIO_OUT_S] = tokens * shape.speech_s_per_token if speech else 0.0
    return whole


def _percentile(objective: Objective) -> float:
    """Where token counts are taken. A longer answer takes longer and speaks longer: RTF takes the middle."""
    return 50.0 if objective.metric is Metric.RTF else objective.percentile


def _path(
    graph: StageGraph, speeds: Speeds, work: Amounts, *, kind: Kind, speech: bool
) -> tuple[tuple[str, float], ...]:
    """The longest way from the door to the first text or, with `speech`, to the first sound."""
    wanted = Payload.PCM if speech else Payload.TEXT
    ends = [edge.source for edge in graph.edges if edge.target == DOOR and edge.payload is wanted]
    if not speech:  # a transcript is text too, but the answer is the one that a prompt led to
        prompted = {edge.target for edge in graph.edges if edge.source == DOOR and edge.payload is Payload.PROMPT}
        ends = [end for end in ends if end in prompted]
    paths = [_longest(graph, speeds, work, kind=kind, stage=end) for end in ends]
    return max(paths, key=lambda path: sum(seconds for _, seconds in path), default=())


def _longest(
    graph: StageGraph, speeds: Speeds, work: Amounts, *, kind: Kind, stage: str
) -> tuple[tuple[str, float], ...]:
    own = ((stage, busy_s(speeds[stage], work)),)
    before = [
        _longest(graph, speeds, work, kind=kind, stage=edge.source)
        for edge in graph.edges
        if edge.target == stage and edge.source != DOOR and _takes_part(graph, edge.source, kind)
    ]
    return max(before, key=lambda path: sum(seconds for _, seconds in path), default=()) + own


def _takes_part(graph: StageGraph, stage: str, kind: Kind) -> bool:
    """Whether requests of this kind reach the stage at all."""
    ins = [edge for edge in graph.edges if edge.target == stage]
    from_door = {edge.payload for edge in ins if edge.source == DOOR}
    given = (
        {Payload.PROMPT} | ({Payload.AUDIO} if kind.audio_in else set()) | ({Payload.IMAGE} if kind.image_in else set())
    )
    inner = (edge.source for edge in ins if edge.source != DOOR)
    return bool(from_door & given) or any(_takes_part(graph, source, kind) for source in inner)
