"""Draws docs/protocol.md from the tables of the stream protocol.

In: SENDER and RECEIVER. Out: the page, printed. Invariant: states, events and actions come from the tables.
Run it as `.venv/bin/python tools/draw_protocol.py > docs/protocol.md`; a test compares the two.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import TypeVar

from accord.run.protocol import RECEIVER, SENDER

WORDS = """\
# The stream protocol

Each edge of each request is one **stream**, from the node that produces to the node that consumes. A node is the
door or a replica. This page is drawn from the tables in `src/accord/run/protocol.py` by `tools/draw_protocol.py`; a
test holds the two together.

**Order.** A stream is opened once, carries data, and has at most one terminal: end or error. Data and the terminal
are numbered from 1. Each acts once and in its turn, whatever order it arrives in and however often.

**Credit.** An edge has a window in bytes. What has been sent and not given back is under way: at most the window,
or half of it and one chunk, so that a chunk larger than the window still passes. The consumer gives a chunk back
when it has read it. A credit says how many bytes have been given back since the stream was opened, so credits may
be lost, repeated or overtaken as long as the last one arrives. A producer without credit waits, and its stage is
blocked.

**Memory.** A chunk of up to 8 KiB travels in its frame. A larger one lies in the producer's arena, on loan to the
consumer. The producer frees it in three cases only: it was given back, the consumer has acknowledged a cancel (or
has cancelled itself, which says that it reads no more), or the consumer's process is gone.

**Cancel.** Either end may cancel at any time. The consumer first stops reading, then says so; an end that hears a
cancel answers with an acknowledgement, even when it is closed. Two cancels that cross answer each other. A consumer
that cancels after the terminal has come has nothing to ask for any more: it gives everything back and closes.

**Deadline.** A producer whose deadline passes sends an error; a consumer cancels.

**Loss.** A process that dies closes its sockets, which tells its peers. A producer takes its loans back. A consumer
that has not had the terminal tells its node that the request is lost; one that has goes on reading, since the
memory stays mapped after its writer's death.

**Proof.** `tests/run/test_protocol.py` visits every state that the two ends of a short stream can reach, with frames in
any order and any number of times and with either process dying at any moment. In none is memory read after it was
freed, and wherever nothing is under way any more, either both ends are closed, or nobody has ended the stream yet,
or it was given up before it was opened.

## Words

Events that begin with GOT come from the peer; the others are local. SETTLED: the terminal was passed and everything
has been given back. FREE takes back every payload on loan. DROP stops reading. GIVE_BACK credits everything, read
or not. DISCARD lets a payload pass that nobody will read. TELL_… informs the node. REJECT is a caller's bug and
raises.

In the tables a cell says the next state, then the actions in their order; "·" means that nothing happens.
"""

State = TypeVar("State", bound=IntEnum)
Event = TypeVar("Event", bound=IntEnum)
Action = TypeVar("Action", bound=IntEnum)


def main() -> None:
    """Prints the page."""
    print(page(), end="")


def page() -> str:
    """The page as Markdown."""
    return WORDS + _chapter("The producing end", SENDER) + _chapter("The consuming end", RECEIVER)


def _chapter(title: str, table: Mapping[State, Mapping[Event, tuple[State, tuple[Action, ...]]]]) -> str:
    return f"\n## {title}\n\n{_diagram(table)}\n{_rows(table)}\n"


def _diagram(table: Mapping[State, Mapping[Event, tuple[State, tuple[Action, ...]]]]) -> str:
    """Mermaid: an arrow for each pair of states, labelled with the events that lead along it."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(table)).name}"]
    for state, row in table.items():
        ways: dict[str, list[str]] = {}
        for event, (after, _) in row.items():
            if after != state:
                ways.setdefault(after.name, []).append(event.name)
        lines += [f"    {state.name} --> {after}: {', '.join(events)}" for after, events in ways.items()]
        if not ways:
            lines.append(f"    {state.name} --> [*]")
    return "\n".join([*lines, "```\n"])


def _rows(table: Mapping[State, Mapping[Event, tuple[State, tuple[Action, ...]]]]) -> str:
    """Events down, states across: an event reads as one line."""
    events = list(next(iter(table.values())))
    lines = ["| event | " + " | ".join(state.name for state in table) + " |", "|---" * (len(table) + 1) + "|"]
    for event in events:
        cells = [_cell(state, row[event]) for state, row in table.items()]
        lines.append(f"| {event.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(state: State, cell: tuple[State, tuple[Action, ...]]) -> str:
    after, actions = cell
    if after == state and not actions:
        return "·"
    done = ", ".join(action.name for action in actions)
    return f"**{after.name}** {done}".rstrip() if after != state else done


if __name__ == "__main__":
    main()
